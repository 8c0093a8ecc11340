// Pooling of images.
#pragma once

#include <string>

#include "towers/layer.h"
#include "towers/layers/conv2d.h"

namespace penstock::towers {

enum class Pooling { max, average };

struct PoolOptions {
  Pooling kind = Pooling::max;
  std::int64_t kernel = 2, stride = 2;
  Padding padding{};  ///< pixels outside count neither as a maximum nor for an average
};

/// The shape that pooling makes of `in`. Throws Error{invalid_argument} naming the layer.
Shape pooled(const std::string& layer, const Shape& in, const PoolOptions& options);

/// [n,h,w,c] -> [n,h',w',c], extents as for conv2d. Among equal maxima the first gets the gradient;
/// on a GPU the one that cuDNN chooses, the same in every run. There averages take even padding
/// only.
LayerPtr pool(const Scope& scope, const PoolOptions& options);
/// [n,h,w,c] -> [n,c]: the average of each channel.
LayerPtr global_average_pool(const Scope& scope);

}  // namespace penstock::towers
