#include "towers/evaluate/class_metrics.h"

#include <algorithm>
#include <bit>
#include <string>

#include <penstock/error.h>
#include <penstock/log.h>

namespace penstock::towers {
namespace {

/// Returns a key that sorts scores as integers, with the index in its lower half.
std::uint64_t sort_key(float score, std::size_t at) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // -0 is 0
  const std::uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return std::uint64_t{ordered} << 32 | at;
}

/// Returns the weighted share of pairs of a positive and a negative in which the positive has the
/// higher score. `of(at)` returns its weight, and whether it is positive.
template <typename Of>
std::optional<double> area_of(std::vector<std::uint64_t> keys, const Of& of) {
  std::ranges::sort(keys);
  double positives = 0;
  double negatives = 0;  // below the current score
  double area = 0;
  for (std::size_t i = 0; i < keys.size();) {
    const std::uint64_t score = keys[i] >> 32;
    double tied_positives = 0;
    double tied_negatives = 0;
    for (; i < keys.size() && keys[i] >> 32 == score; ++i) {
      const auto [weight, positive] = of(static_cast<std::size_t>(keys[i] & 0xFFFFFFFFU));
      (positive ? tied_positives : tied_negatives) += weight;
    }
    area += tied_positives * (negatives + tied_negatives / 2);
    positives += tied_positives;
    negatives += tied_negatives;
  }
  if (positives == 0 || negatives == 0) return std::nullopt;
  return area / (positives * negatives);
}

std::optional<double> share(double part, double whole) {
  if (whole == 0) return std::nullopt;
  return part / whole;
}

}  // namespace

void ClassMetrics::begin(std::int64_t classes) {
  if (classes_ != 0 && classes_ != classes)
    throw Error(ErrorCode::invalid_argument, "a model of " + std::to_string(classes_) +
                                                 " classes tells " + std::to_string(classes) +
                                                 " apart");
  classes_ = classes;
  counts_.resize(static_cast<std::size_t>(classes));
}

std::size_t ClassMetrics::scores_of_row() const noexcept {
  return classes_ == 2 ? 1 : static_cast<std::size_t>(classes_);
}

void ClassMetrics::drop_scores() {
  too_many_ = true;
  scores_ = {};
  labels_ = {};
  weights_ = {};
}

void ClassMetrics::add(const Array& probabilities, std::span<const std::int64_t> labels,
                       std::span<const float> weights, std::int64_t rows) {
  begin(probabilities.dim(1));
  const std::size_t scores = scores_of_row() * static_cast<std::size_t>(rows);
  if (!too_many_ && scores_.size() + scores > kMostScores) drop_scores();
  if (!too_many_ && !weights.empty()) weights_.resize(labels_.size(), 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t label = labels[static_cast<std::size_t>(row)];
    if (label < 0 || label >= classes_)
      throw Error(ErrorCode::mismatch, "label " + std::to_string(label) + " is not one of " +
                                           std::to_string(classes_) + " classes");
    const double weight = weights.empty() ? 1 : weights[static_cast<std::size_t>(row)];
    const float* p = probabilities.data() + row * classes_;
    const auto predicted = std::max_element(p, p + classes_) - p;
    Counts& own = counts_[static_cast<std::size_t>(label)];
    ++own.rows;
    own.actual += weight;
    counts_[static_cast<std::size_t>(predicted)].predicted += weight;
    if (predicted == label) own.right += weight;
    if (too_many_) continue;
    labels_.push_back(static_cast<std::int32_t>(label));
    if (!weights.empty()) weights_.push_back(static_cast<float>(weight));
    if (classes_ == 2) {
      scores_.push_back(p[1]);
    } else {
      scores_.insert(scores_.end(), p, p + classes_);
    }
  }
  if (!too_many_ && weights.empty() && !weights_.empty()) weights_.resize(labels_.size(), 1);
}

void ClassMetrics::add(const ClassMetrics& other) {
  if (other.empty()) return;
  begin(other.classes_);
  for (std::size_t c = 0; c < counts_.size(); ++c) {
    counts_[c].rows += other.counts_[c].rows;
    counts_[c].actual += other.counts_[c].actual;
    counts_[c].predicted += other.counts_[c].predicted;
    counts_[c].right += other.counts_[c].right;
  }
  if (too_many_ || other.too_many_ || scores_.size() + other.scores_.size() > kMostScores)
    return drop_scores();
  if (!other.weights_.empty()) weights_.resize(labels_.size(), 1);
  scores_.insert(scores_.end(), other.scores_.begin(), other.scores_.end());
  labels_.insert(labels_.end(), other.labels_.begin(), other.labels_.end());
  weights_.insert(weights_.end(), other.weights_.begin(), other.weights_.end());
  if (!weights_.empty()) weights_.resize(labels_.size(), 1);
}

std::optional<double> ClassMetrics::auc_of(std::int64_t klass) const {
  const bool two = classes_ == 2;
  std::vector<std::uint64_t> keys(labels_.size());
  for (std::size_t row = 0; row < keys.size(); ++row) {
    // For two classes, the score of the other class is the mirror image.
    const float score =
        two ? (klass == 1 ? scores_[row] : -scores_[row])
            : scores_[row * static_cast<std::size_t>(classes_) + static_cast<std::size_t>(klass)];
    keys[row] = sort_key(score, row);
  }
  return area_of(std::move(keys),
                 [&](std::size_t row) { return std::pair(weight_of(row), labels_[row] == klass); });
}

std::optional<double> ClassMetrics::auc_of_all() const {
  const auto classes = static_cast<std::size_t>(classes_);
  std::vector<std::uint64_t> keys(scores_.size());
  for (std::size_t at = 0; at < keys.size(); ++at) keys[at] = sort_key(scores_[at], at);
  return area_of(std::move(keys), [&](std::size_t at) {
    const std::size_t row = at / classes;
    return std::pair(weight_of(row), static_cast<std::size_t>(labels_[row]) == at % classes);
  });
}

void ClassMetrics::tell(Evaluation& evaluation) const {
  double all = 0;
  double right = 0;
  for (const Counts& one : counts_) {
    all += one.actual;
    right += one.right;
  }
  evaluation.accuracy = all > 0 ? right / all : 0;
  evaluation.classes.clear();
  double precision = 0;
  double recall = 0;
  double area = 0;
  double occur = 0;
  double areas = 0;
  for (std::size_t c = 0; c < counts_.size(); ++c) {
    const Counts& one = counts_[c];
    ClassFigures figures{
        {}, one.rows, share(one.right, one.predicted), share(one.right, one.actual), std::nullopt};
    if (!too_many_ && one.rows > 0) figures.auc = auc_of(static_cast<std::int64_t>(c));
    if (one.rows > 0 || one.predicted > 0) {  // otherwise the class does not occur
      ++occur;
      precision += figures.precision.value_or(0);
      recall += figures.recall.value_or(0);
    }
    if (figures.auc) {
      ++areas;
      area += *figures.auc;
    }
    evaluation.classes.push_back(figures);
  }
  if (classes_ == 2) {
    const ClassFigures& positive = evaluation.classes[1];
    evaluation.precision = positive.precision.value_or(0);
    evaluation.recall = positive.recall.value_or(0);
    evaluation.auc = positive.auc;
  } else {
    evaluation.precision = precision / std::max(1.0, occur);
    evaluation.recall = recall / std::max(1.0, occur);
    evaluation.auc = share(area, areas);
    if (!too_many_) evaluation.auc_micro = auc_of_all();
  }
  if (too_many_)
    log(LogLevel::warning, "the area under the curve is not computed from more than " +
                               std::to_string(kMostScores) + " scores");
}

}  // namespace penstock::towers
