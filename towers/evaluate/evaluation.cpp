#include <penstock/towers/evaluation.h>

#include <penstock/error.h>

namespace penstock::towers {

std::string_view name_of(Measure measure) noexcept {
  switch (measure) {
    case Measure::loss:
      return "loss";
    case Measure::accuracy:
      return "accuracy";
    case Measure::auc:
      return "auc";
  }
  return "none";
}

double figure_of(const Evaluation& evaluation, Measure by) {
  switch (by) {
    case Measure::loss:
      return evaluation.loss;
    case Measure::accuracy:
      return evaluation.accuracy;
    case Measure::auc:
      break;
  }
  if (!evaluation.auc)
    throw Error(ErrorCode::invalid_argument,
                "evaluations here have no AUC to be compared by: the model tells no classes apart, "
                "or the evaluation data have one class alone, or too many scores");
  return *evaluation.auc;
}

std::vector<std::pair<std::string, double>> figures_of(const Evaluation& evaluation) {
  std::vector<std::pair<std::string, double>> figures{{"loss", evaluation.loss},
                                                      {"accuracy", evaluation.accuracy}};
  const auto add = [&figures](const char* name, const std::optional<double>& figure) {
    if (figure) figures.emplace_back(name, *figure);
  };
  add("auc", evaluation.auc);
  add("precision", evaluation.precision);
  add("recall", evaluation.recall);
  add("auc_micro", evaluation.auc_micro);
  return figures;
}

}  // namespace penstock::towers
