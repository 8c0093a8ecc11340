// The evaluations of a run that trains.
#pragma once

#include <cstdint>
#include <optional>

#include "towers/evaluate/early_stop.h"
#include "towers/evaluate/evaluator.h"

namespace penstock::towers {

/// Evaluations on the training towers, between steps, or on a validation tower that runs at the
/// same time. Used by one thread.
class Evaluations {
 public:
  /// Evaluates on options.validation_device, or on `towers` if there is none. `towers` must outlive
  /// this object.
  Evaluations(const ModelMaker& make, TowerSet& towers, const Dataset& test,
              const TrainOptions& options);

  /// Evaluates the current variables of tower 0.
  Evaluation now(std::uint64_t step);
  /// Evaluates and reports to `result` and `observer`, or begins an evaluation on the validation
  /// tower. Does nothing if the last evaluation was of this step.
  void make(std::uint64_t step, TrainResult& result, TrainObserver& observer);
  /// Waits for the evaluation that was begun on the validation tower, and reports it.
  void take(TrainResult& result, TrainObserver& observer);

  /// Returns the step of the last evaluation that was made or begun.
  std::optional<std::uint64_t> last() const noexcept { return last_; }
  /// Returns the early stop, which knows the evaluations reported so far.
  EarlyStop& early_stop() noexcept { return early_stop_; }

 private:
  void tell(const Evaluation& found, const VariableStore& variables, TrainResult& result,
            TrainObserver& observer);

  TowerSet& towers_;
  std::optional<Evaluator> evaluator_;
  std::optional<ValidationTower> beside_;
  std::optional<std::uint64_t> last_;
  EarlyStop early_stop_;
};

}  // namespace penstock::towers
