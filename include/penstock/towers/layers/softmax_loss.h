// Softmax and cross-entropy, the last layer of most classifiers.
#pragma once

#include <cstdint>
#include <span>

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// The mean over valid rows of weight * -log softmax(logits)[label]. Not a Layer: the backward pass
/// begins here.
class SoftmaxLoss {
 public:
  /// The result of a batch.
  struct Result {
    double loss_sum = 0;       ///< weighted sum over valid rows
    std::int64_t correct = 0;  ///< rows whose label has the largest logit, the first among equals
  };
  /// Takes logits [n,classes], and labels and `weights` of n rows; null weights mean 1 each. Throws
  /// Error{invalid_argument} naming the row whose label is not one of the classes. On a GPU, the
  /// result and a wrong label are reported by Gpu::result instead.
  Result forward(const Array& logits, std::span<const std::int64_t> labels, const Pass& pass,
                 const float* weights = nullptr);
  /// Returns the gradient of the mean, which is zero for padding rows. Valid until the next
  /// `forward`.
  const Array& backward() const noexcept { return gradient_; }

 private:
  Array gradient_, rows_;
};

}  // namespace penstock::towers
