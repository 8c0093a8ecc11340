// Precision, recall and the area under the ROC curve of predicted classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <penstock/towers/array.h>
#include <penstock/towers/evaluation.h>

namespace penstock::towers {

/// A collection of a model's predictions for rows that have one class each. The figures are those
/// of scikit-learn (precision_recall_fscore_support, roc_auc_score one against the rest), with
/// sample weights. Areas are exact: they come from sorting all scores, and ties count half. Not
/// synchronised.
///
///     ClassMetrics metrics;
///     metrics.add(probabilities, labels, {}, rows);  // of each batch
///     metrics.tell(evaluation);
class ClassMetrics {
 public:
  /// The most scores from which areas are computed (64 MiB, and twice that to sort). There is one
  /// score a row for two classes, else one for each row and class. If there are more, no areas are
  /// computed and a warning is logged.
  static constexpr std::size_t kMostScores = std::size_t{1} << 24;

  /// Adds the first `rows` rows: probabilities f32 [n,classes], labels, and weights (empty: 1
  /// each). Throws Error{mismatch} for a label that is not one of the classes, and
  /// Error{invalid_argument} if the number of classes differs from earlier calls.
  void add(const Array& probabilities, std::span<const std::int64_t> labels,
           std::span<const float> weights, std::int64_t rows);
  /// Appends the rows of another tower.
  void add(const ClassMetrics& other);

  bool empty() const noexcept { return classes_ == 0; }
  /// Sets accuracy and the fields that follow it in `evaluation`. REQUIRES: not empty.
  void tell(Evaluation& evaluation) const;

 private:
  struct Counts {
    std::int64_t rows = 0;
    double actual = 0, predicted = 0, right = 0;  // sums of weights
  };
  void begin(std::int64_t classes);
  std::size_t scores_of_row() const noexcept;
  void drop_scores();
  double weight_of(std::size_t row) const { return weights_.empty() ? 1 : weights_[row]; }
  std::optional<double> auc_of(std::int64_t klass) const;
  std::optional<double> auc_of_all() const;

  std::int64_t classes_ = 0;
  std::vector<Counts> counts_;  // by class
  std::vector<float> scores_;   // one for each row: class 1's, or all classes'
  std::vector<std::int32_t> labels_;
  std::vector<float> weights_;  // empty: 1 each
  bool too_many_ = false;       // scores, labels and weights are empty then
};

}  // namespace penstock::towers
