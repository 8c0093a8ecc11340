// Kernels over the channels of activations [rows, channels]: see functor.h.
#pragma once

#include "towers/gpu/functor.h"

namespace penstock::towers {

/// Activations as bands: whole rows, about as wide as all lanes of a block together, so that each
/// lane has the same channels in every band, and lanes next to each other read values next to each
/// other. A row of a launch is a part: some bands.
struct Bands {
  std::int64_t values = 0;  ///< rows * channels
  std::int64_t channels = 0;
  std::int64_t width = 0;  ///< values of a band, a multiple of `channels`
  std::int64_t part = 0;   ///< bands of a part

  /// Divides the values into at most `most` parts, for lanes that have 16 bytes at a time.
  static Bands of(std::int64_t values, std::int64_t channels, std::int64_t value_bytes,
                  std::int64_t most) {
    constexpr std::int64_t kBlock = 128;
    const std::int64_t wide = kBlock * 16 / value_bytes;
    Bands bands{values, channels, channels * (channels < wide ? wide / channels : 1), 1};
    const std::int64_t all = bands.count();
    bands.part = all > most ? (all + most - 1) / most : 1;
    return bands;
  }
  std::int64_t count() const { return (values + width - 1) / width; }
  std::int64_t parts() const { return (count() + part - 1) / part; }
};

/// Calls `plan.run<kCount>(place, part)` for each place of a lane in a band, with 16 bytes of
/// values at a time if rows are whole multiples of that.
template <typename T, typename Plan, typename Lanes>
PENSTOCK_TWIN void each_place(const Plan& plan, std::int64_t part, const Lanes& lanes) {
  constexpr int kMost = kWide<T>;
  if (plan.bands.channels % kMost == 0) {
    for (std::int64_t at = lanes.first() * kMost; at < plan.bands.width;
         at += lanes.count() * kMost)
      plan.template run<kMost>(at, part);
  } else {
    for (std::int64_t at = lanes.first(); at < plan.bands.width; at += lanes.count())
      plan.template run<1>(at, part);
  }
}

/// The terms that SumsPlan sums.
enum class Sums : std::int32_t {
  moments,   ///< x, and x²
  squares,   ///< (x - center)²
  gradients  ///< dy, and dy times (x - center) * inverse
};

/// Sums for each place of a band over the bands of a part: [2, parts, width], which is
/// [2, parts * width / channels, channels].
template <typename T>
struct SumsPlan {
  static constexpr bool kRows = true;
  const T *in, *gradient;
  const float *center, *inverse;
  double* sums;
  Bands bands;
  std::int64_t parts;
  Sums what;

  template <typename Lanes>
  PENSTOCK_TWIN void operator()(std::int64_t part, const Lanes& lanes) const {
    each_place<T>(*this, part, lanes);
  }

  template <int kCount>
  PENSTOCK_TWIN void run(std::int64_t place, std::int64_t part) const {
    double first[kCount] = {};
    double second[kCount] = {};
    float middle[kCount] = {};
    float factor[kCount] = {};
    if (what != Sums::moments) {
      for (int i = 0; i < kCount; ++i) {
        middle[i] = center[(place + i) % bands.channels];
        factor[i] = what == Sums::gradients ? inverse[(place + i) % bands.channels] : 0;
      }
    }
    const std::int64_t end = (part + 1) * bands.part;
    for (std::int64_t band = part * bands.part; band < end; ++band) {
      const std::int64_t at = band * bands.width + place;
      if (at >= bands.values) break;
      const auto x = Values<T, kCount>::at(in + at);
      if (what == Sums::gradients) {
        const auto dy = Values<T, kCount>::at(gradient + at);
        for (int i = 0; i < kCount; ++i) {
          const auto owed = static_cast<double>(load(dy.of[i]));
          first[i] += owed;
          second[i] += owed * static_cast<double>((load(x.of[i]) - middle[i]) * factor[i]);
        }
      } else {
        for (int i = 0; i < kCount; ++i) {
          const double value = static_cast<double>(load(x.of[i])) - static_cast<double>(middle[i]);
          first[i] += what == Sums::moments ? value : value * value;
          if (what == Sums::moments) second[i] += value * value;
        }
      }
    }
    for (int i = 0; i < kCount; ++i) {
      sums[part * bands.width + place + i] = first[i];
      sums[(parts + part) * bands.width + place + i] = second[i];
    }
  }
};

/// The totals of SumsPlan's sums, [2, channels], or the first `channels` of them. Each total is a
/// row of the launch.
struct TotalsPlan {
  static constexpr bool kRows = true;
  const double* sums;
  double* totals;
  std::int64_t rows, channels;
  template <typename Lanes>
  PENSTOCK_TWIN void operator()(std::int64_t total, const Lanes& lanes) const {
    const double* const from =
        sums + (total < channels ? total : rows * channels + total - channels);
    double sum = 0;
    for (std::int64_t row = lanes.first(); row < rows; row += lanes.count())
      sum += from[row * channels];
    sum = lanes.sum(sum);
    if (lanes.first() == 0) totals[total] = sum;
  }
};

/// A channel's statistics from the totals of x and x² over `count` values, and the factors of
/// NormPlan. The running statistics keep `keep` of what they were. Without totals, they are used
/// instead, and stay.
struct NormStatisticsPlan {
  const double* totals;
  const float *gamma, *beta;
  float *mean, *variance;
  float *center, *inverse, *factor, *shift;
  std::int64_t channels;
  double count, epsilon;
  float keep;
  PENSTOCK_TWIN void operator()(std::int64_t c) const {
    double middle = static_cast<double>(mean[c]);
    double square = static_cast<double>(variance[c]);
    if (totals != nullptr) {
      middle = totals[c] / count;
      square = totals[channels + c] / count - middle * middle;
      if (square < 0) square = 0;  // a NaN stays
      const double unbiased = square * (count / (count > 1 ? count - 1 : 1));
      mean[c] = keep * mean[c] + (1 - keep) * static_cast<float>(middle);
      variance[c] = keep * variance[c] + (1 - keep) * static_cast<float>(unbiased);
    }
    center[c] = static_cast<float>(middle);
    inverse[c] = static_cast<float>(1 / sqrt(square + epsilon));
    factor[c] = inverse[c] * gamma[c];
    shift[c] = beta[c] - center[c] * factor[c];
  }
};

/// The normalised values.
template <typename T>
struct NormPlan {
  static constexpr bool kRows = true;
  const T* in;
  T* out;
  const float *factor, *shift;
  Bands bands;

  template <typename Lanes>
  PENSTOCK_TWIN void operator()(std::int64_t part, const Lanes& lanes) const {
    each_place<T>(*this, part, lanes);
  }

  template <int kCount>
  PENSTOCK_TWIN void run(std::int64_t place, std::int64_t part) const {
    float times[kCount];
    float plus[kCount];
    for (int i = 0; i < kCount; ++i) {
      times[i] = factor[(place + i) % bands.channels];
      plus[i] = shift[(place + i) % bands.channels];
    }
    const std::int64_t end = (part + 1) * bands.part;
    for (std::int64_t band = part * bands.part; band < end; ++band) {
      const std::int64_t at = band * bands.width + place;
      if (at >= bands.values) break;
      auto x = Values<T, kCount>::at(in + at);
      for (int i = 0; i < kCount; ++i) store(x.of[i], load(x.of[i]) * times[i] + plus[i]);
      x.put(out + at);
    }
  }
};

/// The gradient of the input, from the totals of all towers over `count` values.
template <typename T>
struct NormBackPlan {
  static constexpr bool kRows = true;
  const T *in, *gradient;
  T* in_gradient;
  const float *center, *inverse, *factor;
  const double* totals;
  Bands bands;
  double count;

  template <typename Lanes>
  PENSTOCK_TWIN void operator()(std::int64_t part, const Lanes& lanes) const {
    each_place<T>(*this, part, lanes);
  }

  template <int kCount>
  PENSTOCK_TWIN void run(std::int64_t place, std::int64_t part) const {
    float middle[kCount];
    float scale[kCount];
    float times[kCount];
    float mean_dy[kCount];
    float mean_dyx[kCount];
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t c = (place + i) % bands.channels;
      middle[i] = center[c];
      scale[i] = inverse[c];
      times[i] = factor[c];
      mean_dy[i] = static_cast<float>(totals[c] / count);
      mean_dyx[i] = static_cast<float>(totals[bands.channels + c] / count);
    }
    const std::int64_t end = (part + 1) * bands.part;
    for (std::int64_t band = part * bands.part; band < end; ++band) {
      const std::int64_t at = band * bands.width + place;
      if (at >= bands.values) break;
      const auto x = Values<T, kCount>::at(in + at);
      auto dy = Values<T, kCount>::at(gradient + at);
      for (int i = 0; i < kCount; ++i) {
        const float normal = (load(x.of[i]) - middle[i]) * scale[i];
        store(dy.of[i], times[i] * (load(dy.of[i]) - mean_dy[i] - normal * mean_dyx[i]));
      }
      dy.put(in_gradient + at);
    }
  }
};

}  // namespace penstock::towers
