// Results of an evaluation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::towers {

/// The figure by which one of two evaluations is better.
enum class Measure {
  loss,      ///< the lower loss is better
  accuracy,  ///< the higher accuracy is better
  auc,       ///< the larger area under the curve is better
};
/// Returns "loss", "accuracy" or "auc".
std::string_view name_of(Measure measure) noexcept;

/// The figures of one class against all others. A figure is empty where it is not defined. `auc` is
/// empty if no row or every row is of the class, `recall` if no row is, and `precision` if the
/// class is never predicted.
struct ClassFigures {
  std::string name{};                                  ///< empty: use its label
  std::int64_t rows = 0;                               ///< of the class
  std::optional<double> precision{}, recall{}, auc{};  ///< empty: see Evaluation
};

/// The figures of an evaluation. Each is a mean over rows, weighted where rows have weights.
struct Evaluation {
  std::uint64_t step = 0;  ///< updates made before it
  double loss = 0;         ///< without regularisation
  double accuracy = 0;     ///< share of rows whose class is predicted
  std::int64_t rows = 0;   ///< evaluated
  /// Figures of class 1 if there are two classes. With more classes, they are the mean over the
  /// classes that occur, as scikit-learn's "macro". Empty for models that do not tell classes
  /// apart. `auc` is also empty beyond ClassMetrics::kMostScores scores, or if all rows are of one
  /// class.
  std::optional<double> auc{}, precision{}, recall{};
  /// The AUC over all pairs of a row and a class, "micro", for three classes or more. The micro
  /// precision and recall equal the accuracy.
  std::optional<double> auc_micro{};
  std::vector<ClassFigures> classes{};  ///< by label; empty as above
};

/// Returns the figure that evaluations are compared by. Throws Error{invalid_argument} if the
/// evaluation has none.
double figure_of(const Evaluation& evaluation, Measure by);

/// Returns the names and values of all figures but `classes`, `step` and `rows`, as JSON and charts
/// have them. Figures that are empty are left out; loss and accuracy come first.
std::vector<std::pair<std::string, double>> figures_of(const Evaluation& evaluation);

}  // namespace penstock::towers
