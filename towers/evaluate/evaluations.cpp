#include "towers/evaluate/evaluations.h"

namespace penstock::towers {

Evaluations::Evaluations(const ModelMaker& make, TowerSet& towers, const Dataset& test,
                         const TrainOptions& options)
    : towers_(towers), early_stop_(options.patience, options.patience_by) {
  if (options.validation_device) {
    beside_.emplace(make, test, options);
  } else {
    evaluator_.emplace(towers, test, options);
  }
}

Evaluation Evaluations::now(std::uint64_t step) {
  if (evaluator_) return evaluator_->evaluate(step);
  if (beside_->busy()) static_cast<void>(beside_->take());
  beside_->begin(towers_.store(), step);
  return beside_->take();
}

void Evaluations::make(std::uint64_t step, TrainResult& result, TrainObserver& observer) {
  if (last_ == step) return;
  if (evaluator_) {
    tell(evaluator_->evaluate(step), towers_.store(), result, observer);
  } else {
    take(result, observer);
    beside_->begin(towers_.store(), step);
  }
  last_ = step;
}

void Evaluations::take(TrainResult& result, TrainObserver& observer) {
  if (!beside_ || !beside_->busy()) return;
  const Evaluation found = beside_->take();
  tell(found, beside_->variables(), result, observer);
}

void Evaluations::tell(const Evaluation& found, const VariableStore& variables, TrainResult& result,
                       TrainObserver& observer) {
  result.evaluation = found;
  early_stop_.take(found);
  observer.on_evaluated(found, variables);
}

}  // namespace penstock::towers
