// Figures of classifiers against what scikit-learn and Keras find; see
// tests/golden/metrics_sklearn.py.
#include "towers/evaluate/class_metrics.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/towers/layers/softmax_loss.h>

#include "tests/support/errors.h"
#include "tests/support/places.h"
#include "tests/towers/arrays.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using test::list;
using test::skip;

std::vector<double> golden(const std::string& wanted) {
  std::ifstream in(penstock::test::source_dir() + "/tests/golden/metrics_sklearn.txt");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name != wanted) continue;
    std::vector<double> values;
    for (double value = 0; words >> value;) values.push_back(value);
    return values;
  }
  ADD_FAILURE() << "nothing golden is called " << wanted;
  return {};
}

template <typename T>
std::vector<T> golden_as(const std::string& name) {
  std::vector<T> values;
  for (const double value : golden(name)) values.push_back(static_cast<T>(value));
  return values;
}

struct Rows {
  explicit Rows(const std::string& name)
      : scores(golden_as<float>(name + ".scores")),
        labels(golden_as<std::int64_t>(name + ".labels")),
        weights(golden_as<float>(name + ".weights")) {}
  std::int64_t rows() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t classes() const { return static_cast<std::int64_t>(scores.size()) / rows(); }
  /// Adds the rows from `first` up to `last`, behind which is padding.
  void add_to(ClassMetrics& metrics, std::int64_t first, std::int64_t last) const {
    const auto at = static_cast<std::size_t>(first);
    const Array view = Array::view(scores.data() + first * classes(), {rows() - first, classes()});
    metrics.add(view, std::span(labels).subspan(at),
                weights.empty() ? std::span<const float>() : std::span(weights).subspan(at),
                last - first);
  }
  std::vector<float> scores;
  std::vector<std::int64_t> labels;
  std::vector<float> weights;
};

class GoldenMetrics : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cases, GoldenMetrics,
                         testing::Values("two", "two_tied", "two_weighted", "four", "four_lacking",
                                         "four_weighted"),
                         [](const auto& made) { return std::string(made.param); });

TEST_P(GoldenMetrics, FiguresOfScikitLearn) {
  const std::string name = GetParam();
  const Rows rows(name);
  // Of one tower, and of two that had batches of their own.
  for (const std::int64_t first : {std::int64_t{0}, rows.rows() / 3}) {
    ClassMetrics metrics;
    ClassMetrics other;
    rows.add_to(metrics, first, rows.rows() - 7);
    rows.add_to(metrics, rows.rows() - 7, rows.rows());
    rows.add_to(other, 0, first);
    metrics.add(other);
    Evaluation found;
    metrics.tell(found);
    EXPECT_NEAR(found.accuracy, golden(name + ".accuracy").at(0), 1e-7);
    EXPECT_NEAR(found.precision.value(), golden(name + ".precision").at(0), 1e-7);
    EXPECT_NEAR(found.recall.value(), golden(name + ".recall").at(0), 1e-7);
    EXPECT_NEAR(found.auc.value(), golden(name + ".auc").at(0), 1e-7);
    EXPECT_EQ(found.classes.size(), static_cast<std::size_t>(rows.classes()));
    EXPECT_EQ(found.auc_micro.has_value(), rows.classes() > 2);
    if (rows.classes() > 2) {
      EXPECT_NEAR(found.auc_micro.value(), golden(name + ".auc_micro").at(0), 1e-7);
    }
  }
}

TEST(ClassMetrics, SaysNothingOfClassesThatDoNotOccur) {
  ClassMetrics metrics;
  EXPECT_TRUE(metrics.empty());
  const std::vector<float> scores{0.1F, 0.7F, 0.2F, 0.2F, 0.5F, 0.3F};
  metrics.add(Array::view(scores.data(), {2, 3}), std::vector<std::int64_t>{1, 1}, {}, 2);
  EXPECT_FALSE(metrics.empty());
  Evaluation found;
  metrics.tell(found);
  EXPECT_EQ(found.accuracy, 1);
  EXPECT_EQ(found.precision, 1) << "of class 1 alone";
  EXPECT_EQ(found.auc, std::nullopt) << "there is no pair of a positive and a negative";
  EXPECT_EQ(found.classes[0].rows, 0);
  EXPECT_EQ(found.classes[0].precision, std::nullopt);
  EXPECT_EQ(found.classes[0].recall, std::nullopt);
  EXPECT_EQ(found.classes[1].rows, 2);
}

TEST(ClassMetrics, WrongLabels) {
  ClassMetrics metrics;
  const std::vector<float> scores{0.4F, 0.6F};
  const Array one = Array::view(scores.data(), {1, 2});
  for (const std::int64_t label : {-1, 2})
    expect_error(ErrorCode::mismatch, "is not one of 2 classes",
                 [&] { metrics.add(one, std::vector<std::int64_t>{label}, {}, 1); });
  const std::vector<float> three{0.4F, 0.3F, 0.3F};
  expect_error(ErrorCode::invalid_argument, "a model of 2 classes", [&] {
    metrics.add(Array::view(three.data(), {1, 3}), std::vector<std::int64_t>{0}, {}, 1);
  });
}

TEST(ClassMetrics, BeyondItsMemory) {
  ClassMetrics metrics;
  // So many classes that a few rows are too much.
  const std::int64_t classes = std::int64_t{1} << 21;
  Array scores({3, classes});
  scores.fill(0);
  const std::vector<std::int64_t> labels{0, 1, 0};
  for (int batch = 0; batch < 3; ++batch) metrics.add(scores, labels, {}, 3);
  Evaluation found;
  metrics.tell(found);
  EXPECT_EQ(found.auc, std::nullopt);
  EXPECT_EQ(found.auc_micro, std::nullopt);
  EXPECT_NEAR(found.accuracy, 2.0 / 3, 1e-12);
  EXPECT_EQ(found.classes[0].rows, 6);
}

TEST(Evaluation, IsComparedByFiguresThatItHas) {
  Evaluation found{1, 0.5, 0.75, 4};
  EXPECT_EQ(figure_of(found, Measure::loss), 0.5);
  EXPECT_EQ(figure_of(found, Measure::accuracy), 0.75);
  expect_error(ErrorCode::invalid_argument, "have no AUC",
               [&] { static_cast<void>(figure_of(found, Measure::auc)); });
  found.auc = 0.9;
  EXPECT_EQ(figure_of(found, Measure::auc), 0.9);
  EXPECT_EQ(figures_of(found).back(), (std::pair<std::string, double>("auc", 0.9)));
}

TEST(SoftmaxLoss, WeighsRowsAsKerasDoes) {
  const auto logits = golden_as<float>("loss.logits");
  const auto labels = golden_as<std::int64_t>("loss.labels");
  const auto weights = golden_as<float>("loss.weights");
  SoftmaxLoss loss;
  const SoftmaxLoss::Result found =
      loss.forward(Array::view(logits.data(), {5, 3}), labels, skip(5), weights.data());
  EXPECT_NEAR(found.loss_sum / 5, golden("loss.value").at(0), 1e-6);
  EXPECT_THAT(list(loss.backward()),
              testing::Pointwise(testing::FloatNear(1e-6F), golden_as<float>("loss.gradient")));
}

}  // namespace
}  // namespace penstock::towers
