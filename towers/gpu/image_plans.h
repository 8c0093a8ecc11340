// Kernels over images, channels last: see functor.h.
#pragma once

#include "towers/gpu/functor.h"

namespace penstock::towers {

/// A copy of an image into the middle of a larger one, whose other values become `around`, or back.
/// `to` is [n,h,w,c] of the larger image if `into`, else of the smaller.
template <typename T>
struct PadPlan {
  const T* from;
  T* to;
  std::int64_t height, width, channels;  ///< of the smaller
  std::int64_t low, padded_height, padded_width;
  bool into;
  float around;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    const std::int64_t h = into ? padded_height : height;
    const std::int64_t w = into ? padded_width : width;
    const std::int64_t c = i % channels;
    const std::int64_t x = i / channels % w;
    const std::int64_t y = i / channels / w % h;
    const std::int64_t n = i / channels / w / h;
    if (!into) {
      to[i] = from[((n * padded_height + y + low) * padded_width + x + low) * channels + c];
      return;
    }
    const std::int64_t from_x = x - low;
    const std::int64_t from_y = y - low;
    const bool inside = from_x >= 0 && from_x < width && from_y >= 0 && from_y < height;
    if (inside) {
      to[i] = from[((n * height + from_y) * width + from_x) * channels + c];
    } else {
      store(to[i], around);
    }
  }
};

/// Local response normalisation, and its derivative. Both work on a window of channels.
template <typename T>
struct LrnPlan {
  const T* in;
  T* out;
  float* scale;
  std::int64_t channels, radius;
  float bias, alpha, beta;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    const std::int64_t c = i % channels;
    const T* row = in + (i - c);
    float sum = 0;
    for (std::int64_t d = c < radius ? 0 : c - radius; d <= c + radius && d < channels; ++d)
      sum += load(row[d]) * load(row[d]);
    scale[i] = bias + alpha * sum;
    store(out[i], load(in[i]) * powf(scale[i], -beta));
  }
};

template <typename T>
struct LrnBackPlan {
  const T *in, *gradient;
  const float* scale;
  T* in_gradient;
  std::int64_t channels, radius;
  float alpha, beta;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    const std::int64_t c = i % channels;
    const std::int64_t row = i - c;
    float sum = 0;
    for (std::int64_t d = c < radius ? 0 : c - radius; d <= c + radius && d < channels; ++d)
      sum += load(gradient[row + d]) * load(in[row + d]) * powf(scale[row + d], -beta - 1);
    store(in_gradient[i],
          load(gradient[i]) * powf(scale[i], -beta) - 2 * alpha * beta * load(in[i]) * sum);
  }
};

}  // namespace penstock::towers
