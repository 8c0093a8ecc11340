// Convolution of images.
#pragma once

#include <string>

#include "towers/layer.h"

namespace penstock::towers {

/// Zeros around an image, on each axis: `low` above and to the left, `high` below and to the right.
struct Padding {
  std::int64_t low = 0, high = 0;
  /// TF's SAME: ceil(extent / stride) positions, the odd zero at the high side.
  static Padding same(std::int64_t extent, std::int64_t kernel, std::int64_t stride);
};

struct Conv2dOptions {
  std::int64_t in = 0, out = 0;  ///< channels
  std::int64_t kernel = 1, stride = 1;
  Padding padding{};
  bool bias = true;
  Initializer initializer{};  ///< of the weights
  Initializer bias_initializer{};
  bool input_gradient = true;  ///< false for a model's first layer
};

/// The shape that a convolution makes of `in`. Throws Error{invalid_argument} naming the layer.
Shape convolved(const std::string& layer, const Shape& in, const Conv2dOptions& options);

/// [n,h,w,in] -> [n,h',w',out], h' = (h + low + high - kernel) / stride + 1. Variables: weights
/// [out,in,kernel,kernel], biases [out]. A correlation, as everybody's. oneDNN on host devices,
/// where the weights' gradient depends, in its last bits, on the threads.
LayerPtr conv2d(const Scope& scope, const Conv2dOptions& options);

}  // namespace penstock::towers
