// Convolution of images.
#pragma once

#include <string>

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// Zeros around an image, on each axis: `low` above and to the left, `high` below and to the right.
struct Padding {
  std::int64_t low = 0, high = 0;  ///< pixels
  /// TensorFlow's SAME padding: ceil(extent / stride) positions, the odd zero on the high side.
  static Padding same(std::int64_t extent, std::int64_t kernel, std::int64_t stride);
};

/// The options of a Conv2d layer.
struct Conv2dOptions {
  std::int64_t in = 0, out = 0;         ///< channels
  std::int64_t kernel = 1, stride = 1;  ///< pixels, on both axes
  Padding padding{};                    ///< zeros around the image
  bool bias = true;                     ///< adds a bias to each channel
  Initializer initializer{};            ///< of the weights
  Initializer bias_initializer{};       ///< of the bias
  bool input_gradient = true;           ///< false for a model's first layer
};

/// Returns the output shape of a convolution of `in`. Throws Error{invalid_argument} naming the
/// layer.
Shape convolved(const std::string& layer, const Shape& in, const Conv2dOptions& options);

/// Maps [n,h,w,in] to [n,h',w',out], where h' = (h + low + high - kernel) / stride + 1. Variables:
/// weights [out,in,kernel,kernel], biases [out]. The operation is a correlation, as is usual for
/// this layer. Host devices use oneDNN; there the last bits of the weights' gradient depend on the
/// threads.
LayerPtr conv2d(const Scope& scope, const Conv2dOptions& options);

}  // namespace penstock::towers
