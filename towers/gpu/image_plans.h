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

/// The windows of a pooling.
struct Windows {
  std::int32_t height, width, channels;  ///< of the images
  std::int32_t out_height, out_width;
  std::int32_t kernel, stride, low;
};

/// Calls `plan.run<kCount>(row, x, c)` for each vector of values of row `row` of all images' rows.
template <typename T, typename Plan, typename Lanes>
PENSTOCK_TWIN void each_vector(const Plan& plan, std::int64_t row, std::int32_t width,
                               std::int32_t channels, const Lanes& lanes) {
  constexpr int kMost = kWide<T>;
  const auto first = static_cast<std::int32_t>(lanes.first());
  const auto step = static_cast<std::int32_t>(lanes.count());
  if (channels % kMost == 0) {
    const std::int32_t vectors = channels / kMost;
    for (std::int32_t i = first; i < width * vectors; i += step)
      plan.template run<kMost>(row, i / vectors, i % vectors * kMost);
  } else {
    for (std::int32_t i = first; i < width * channels; i += step)
      plan.template run<1>(row, i / channels, i % channels);
  }
}

/// The maximum of each window, and its place in it. A NaN is above all. The first of equal maxima
/// counts, and the last NaN. Each row of outputs is a row of the launch.
template <typename T>
struct MaxPoolPlan {
  static constexpr bool kRows = true;
  const T* in;
  T* out;
  std::uint16_t* places;
  Windows windows;

  template <typename Lanes>
  PENSTOCK_TWIN void operator()(std::int64_t row, const Lanes& lanes) const {
    each_vector<T>(*this, row, windows.out_width, windows.channels, lanes);
  }

  template <int kCount>
  PENSTOCK_TWIN void run(std::int64_t row, std::int32_t x, std::int32_t c) const {
    const Windows& w = windows;
    const std::int64_t image = row / w.out_height * w.height;
    const auto top = static_cast<std::int32_t>(row % w.out_height) * w.stride - w.low;
    const std::int32_t left = x * w.stride - w.low;
    Values<T, kCount> best;
    // The first place inside the image.
    const std::int32_t inside = (top < 0 ? -top * w.kernel : 0) + (left < 0 ? -left : 0);
    Values<std::uint16_t, kCount> place;
    for (int i = 0; i < kCount; ++i) {
      store(best.of[i], -INFINITY);
      place.of[i] = static_cast<std::uint16_t>(inside);
    }
    for (std::int32_t dy = 0; dy < w.kernel; ++dy) {
      if (top + dy < 0 || top + dy >= w.height) continue;
      for (std::int32_t dx = 0; dx < w.kernel; ++dx) {
        if (left + dx < 0 || left + dx >= w.width) continue;
        const auto values =
            Values<T, kCount>::at(in + ((image + top + dy) * w.width + left + dx) * w.channels + c);
        for (int i = 0; i < kCount; ++i) {
          const float value = load(values.of[i]);
          if (value > load(best.of[i]) || value != value) {
            best.of[i] = values.of[i];
            place.of[i] = static_cast<std::uint16_t>(dy * w.kernel + dx);
          }
        }
      }
    }
    const std::int64_t to = (row * w.out_width + x) * w.channels + c;
    best.put(out + to);
    place.put(places + to);
  }
};

/// Its gradient: each input sums the gradients of the windows whose maximum it is, so no two
/// threads write the same value. Each row of inputs is a row of the launch.
template <typename T>
struct MaxPoolBackPlan {
  static constexpr bool kRows = true;
  const T* gradient;
  const std::uint16_t* places;
  T* in_gradient;
  Windows windows;

  template <typename Lanes>
  PENSTOCK_TWIN void operator()(std::int64_t row, const Lanes& lanes) const {
    each_vector<T>(*this, row, windows.width, windows.channels, lanes);
  }

  /// The first and the last window, on one axis, that `at` lies in.
  struct Range {
    std::int32_t first, last;
  };
  PENSTOCK_TWIN Range around(std::int32_t at, std::int32_t outs) const {
    const std::int32_t from = at + windows.low;
    const std::int32_t before = from - windows.kernel;
    const std::int32_t last = from / windows.stride;
    return {before < 0 ? 0 : before / windows.stride + 1, last < outs ? last : outs - 1};
  }

  template <int kCount>
  PENSTOCK_TWIN void run(std::int64_t row, std::int32_t x, std::int32_t c) const {
    const Windows& w = windows;
    const std::int64_t image = row / w.height * w.out_height;
    const auto y = static_cast<std::int32_t>(row % w.height);
    const Range rows = around(y, w.out_height);
    const Range columns = around(x, w.out_width);
    float sum[kCount] = {};
    for (std::int32_t oy = rows.first; oy <= rows.last; ++oy) {
      for (std::int32_t ox = columns.first; ox <= columns.last; ++ox) {
        const std::int64_t from = ((image + oy) * w.out_width + ox) * w.channels + c;
        const std::int32_t here =
            (y + w.low - oy * w.stride) * w.kernel + x + w.low - ox * w.stride;
        const auto place = Values<std::uint16_t, kCount>::at(places + from);
        const auto owed = Values<T, kCount>::at(gradient + from);
        for (int i = 0; i < kCount; ++i)
          if (place.of[i] == here) sum[i] += load(owed.of[i]);
      }
    }
    Values<T, kCount> made;
    for (int i = 0; i < kCount; ++i) store(made.of[i], sum[i]);
    made.put(in_gradient + (row * w.width + x) * w.channels + c);
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
