// Losses for pairs of vectors that should be similar or dissimilar.
#pragma once

#include <cstdint>
#include <vector>

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// The triplet loss on cosine similarity, over rows [n,width]. For a vector of zeros, cosine and
/// derivatives are 0. On a GPU results stay there (Gpu::result).
class TripletLoss {
 public:
  /// Makes a loss that a pair of cosines has unless they differ by `margin`.
  explicit TripletLoss(float margin = 0.2F) : margin_(margin) {}
  /// The result of a batch.
  struct Result {
    double loss_sum = 0;       ///< over valid rows, weighted
    std::int64_t correct = 0;  ///< rows whose query is closer to its positive than to its negative
  };
  /// Returns the sum over valid rows of weight * max(0, margin - cos(query, positive) + cos(query,
  /// negative)). All arrays are [n,width]. Source: Schroff et al., 2015, with cosines. `weights`
  /// has one value for each row; null means 1 each.
  Result forward(const Array& query, const Array& positive, const Array& negative, const Pass& pass,
                 const float* weights = nullptr);
  /// Returns the query's gradient of the mean over valid rows.
  const Array& query_gradient() const noexcept { return query_; }
  /// Returns the positive's gradient of this mean.
  const Array& positive_gradient() const noexcept { return positive_; }
  /// Returns the negative's gradient of this mean.
  const Array& negative_gradient() const noexcept { return negative_; }

 private:
  const float margin_;
  Array query_, positive_, negative_;
  Array rows_;  // results of single rows, on a GPU
};

/// Returns the cosines of the rows [n,width] of two arrays, as f32 in host memory.
std::vector<float> cosines(const Array& a, const Array& b);

/// Compares each query with the positives of all valid rows of the batch: softmax cross-entropy of
/// cosines times `scale`, whose label is the query's own row. Source: Henderson et al., 2017.
class InBatchNegativesLoss {
 public:
  /// Makes a loss whose logits are cosines times `scale`.
  explicit InBatchNegativesLoss(float scale = 20) : scale_(scale) {}
  /// The result of a batch.
  using Result = TripletLoss::Result;
  /// Returns the sum over valid rows. Both arrays are [n,width].
  Result forward(const Array& query, const Array& positive, const Pass& pass);
  /// Returns the query's gradient of the mean over valid rows.
  const Array& query_gradient() const noexcept { return query_; }
  /// Returns the positive's gradient of this mean.
  const Array& positive_gradient() const noexcept { return positive_; }

 private:
  const float scale_;
  Array query_, positive_;
  Array rows_, weights_;
};

}  // namespace penstock::towers
