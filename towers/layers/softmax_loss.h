// Softmax and cross-entropy: what most classifiers end in.
#pragma once

#include <cstdint>
#include <span>

#include "towers/layer.h"

namespace penstock::towers {

/// The mean over valid rows of -log softmax(logits)[label]. Not a Layer: it begins the way back.
class SoftmaxLoss {
 public:
  struct Result {
    double loss_sum = 0;       ///< over valid rows
    std::int64_t correct = 0;  ///< rows whose label has the largest logit, the first among equals
  };
  /// Logits [n,classes], labels of n rows. Throws Error{invalid_argument} naming the row of a label
  /// that is none of the classes.
  /// On a GPU the result stays there (Gpu::result), and so does what is said of a wrong label.
  Result forward(const Array& logits, std::span<const std::int64_t> labels, const Pass& pass);
  /// The gradient of the mean, zero for rows that are padding; valid until the next `forward`.
  const Array& backward() const noexcept { return gradient_; }

 private:
  Array gradient_, rows_;
};

}  // namespace penstock::towers
