// Pooling of images.
#pragma once

#include <string>

#include <penstock/towers/layer.h>
#include <penstock/towers/layers/conv2d.h>

namespace penstock::towers {

/// The value that stands for the pixels of a window.
enum class Pooling { max, average };

/// The options of `pool`.
struct PoolOptions {
  Pooling kind = Pooling::max;          ///< maximum or average
  std::int64_t kernel = 2, stride = 2;  ///< pixels, on both axes
  /// Pixels outside count neither as a maximum nor for an average. Smaller than the kernel.
  Padding padding{};
};

/// Returns the output shape of pooling of `in`. Throws Error{invalid_argument} naming the layer.
Shape pooled(const std::string& layer, const Shape& in, const PoolOptions& options);

/// Maps [n,h,w,c] to [n,h',w',c], with extents as for conv2d. Among equal maxima the first one gets
/// the gradient. Averages on a GPU take only padding that is equal on both sides, and maxima
/// windows of up to 255 pixels a side.
LayerPtr pool(const Scope& scope, const PoolOptions& options);
/// Maps [n,h,w,c] to [n,c]: the average of each channel.
LayerPtr global_average_pool(const Scope& scope);

}  // namespace penstock::towers
