#include "towers/evaluate/early_stop.h"

#include <cmath>
#include <locale>
#include <sstream>

#include <penstock/error.h>

#include "towers/numbers.h"

namespace penstock::towers {

void EarlyStop::take(const Evaluation& evaluation) {
  const double figure = figure_of(evaluation, by_);
  const bool better = std::isfinite(figure) &&
                      (!best_step_ || (by_ == Measure::loss ? figure < best_ : figure > best_));
  if (!better) {
    ++since_;
    return;
  }
  best_ = figure;
  best_step_ = evaluation.step;
  since_ = 0;
}

std::string EarlyStop::save() const {
  const std::string best =
      best_step_ ? " " + std::to_string(*best_step_) + " " + exact_text(best_) : std::string();
  return std::string(name_of(by_)) + " " + std::to_string(since_) + best;
}

void EarlyStop::restore(const std::string& kept) {
  std::istringstream in(kept);
  in.imbue(std::locale::classic());
  std::string measure;
  int since = -1;
  std::uint64_t step = 0;
  double best = 0;
  in >> measure >> since;
  if (!in || since < 0)
    throw Error(ErrorCode::data_loss, "it does not say how its evaluations went: " + kept);
  if (measure != name_of(by_)) return;
  since_ = since;
  if (in >> step >> best) {
    best_step_ = step;
    best_ = best;
  }
}

}  // namespace penstock::towers
