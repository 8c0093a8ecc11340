// Sigmoid and cross-entropy, for labels that are 0 or 1.
#pragma once

#include <cstdint>
#include <span>

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// The mean over valid rows of weight * -log p, where p is the probability that the logit gives the
/// label. The probability of label 1 is 1 / (1 + exp(-logit)). On host devices.
class SigmoidLoss {
 public:
  struct Result {
    double loss_sum = 0;  ///< over valid rows
    /// Rows whose logit is above 0 exactly if the label is 1.
    std::int64_t correct = 0;
  };
  /// Takes logits [n,1], and labels and `weights` of n rows (null: 1 each). Throws Error{mismatch},
  /// which names the row, for a label that is neither 0 nor 1.
  Result forward(const Array& logits, std::span<const std::int64_t> labels, const Pass& pass,
                 const float* weights = nullptr);
  /// Returns the gradient of the mean, zero for rows of padding; valid until the next `forward`.
  const Array& backward() const noexcept { return gradient_; }

 private:
  Array gradient_;
};

}  // namespace penstock::towers
