// Losses of vectors that should be alike, or not.
#pragma once

#include <cstdint>

#include "towers/layer.h"

namespace penstock::towers {

/// On a GPU results stay there (Gpu::result). The cosine of two vectors and its derivatives, over
/// rows [n,width]; a vector of zeros is like nothing: cosine and derivatives are 0.
class TripletLoss {
 public:
  explicit TripletLoss(float margin = 0.2F) : margin_(margin) {}
  struct Result {
    double loss_sum = 0;
    std::int64_t correct = 0;  ///< rows whose query is more like its positive
  };
  /// The sum over valid rows of max(0, margin - cos(query, positive) + cos(query, negative)). All
  /// [n,width]. Source: Schroff et al., 2015, with cosines.
  Result forward(const Array& query, const Array& positive, const Array& negative,
                 const Pass& pass);
  /// Of the mean over valid rows.
  const Array& query_gradient() const noexcept { return query_; }
  const Array& positive_gradient() const noexcept { return positive_; }
  const Array& negative_gradient() const noexcept { return negative_; }

 private:
  const float margin_;
  Array query_, positive_, negative_;
  Array rows_;  // on a GPU, as what follows
};

/// Each query against the positives of all valid rows of the batch: softmax cross-entropy of
/// cosines times `scale`, whose label is the query's own row. Source: Henderson et al., 2017.
class InBatchNegativesLoss {
 public:
  explicit InBatchNegativesLoss(float scale = 20) : scale_(scale) {}
  using Result = TripletLoss::Result;
  Result forward(const Array& query, const Array& positive, const Pass& pass);
  const Array& query_gradient() const noexcept { return query_; }
  const Array& positive_gradient() const noexcept { return positive_; }

 private:
  const float scale_;
  Array query_, positive_;
  Array rows_, weights_;
};

}  // namespace penstock::towers
