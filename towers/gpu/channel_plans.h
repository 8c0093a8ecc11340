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
  /// The bands [first, end) of a part that have a value at `place`.
  PENSTOCK_TWIN std::int64_t first(std::int64_t of_part) const { return of_part * part; }
  PENSTOCK_TWIN std::int64_t end(std::int64_t of_part, std::int64_t place) const {
    const std::int64_t all = (values - place + width - 1) / width;
    const std::int64_t mine = (of_part + 1) * part;
    return mine < all ? mine : all;
  }
  std::int64_t count() const { return (values + width - 1) / width; }
  std::int64_t parts() const { return (count() + part - 1) / part; }
};

/// Returns how many values a lane has at a time: 16 bytes of them if rows are whole multiples of
/// that, else one.
inline std::int64_t vector_of(std::int64_t value_bytes, std::int64_t channels) {
  const std::int64_t wide = 16 / value_bytes;
  return channels % wide == 0 ? wide : 1;
}

/// Calls `plan.run<kCount>(place, part)` for each place of a lane in a band, with `kCount` values
/// at a time.
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

/// Zeroes gradients of values that the relu clipped. `gates` has a bit for each value, and a byte
/// for each vector of `kCount` values. So no two lanes write the same byte. Null: none were
/// clipped.
template <typename T, int kCount>
PENSTOCK_TWIN void close_gates(const std::uint8_t* gates, std::int64_t at,
                               Values<T, kCount>& gradients) {
  static_assert(kCount <= 8);
  const unsigned open = gates == nullptr ? ~0U : gates[at / kCount];
  for (int i = 0; i < kCount; ++i) gradients.of[i] = (open >> i & 1U) != 0 ? gradients.of[i] : T{};
}

/// The terms that SumsPlan sums.
enum class Sums : std::int32_t {
  moments,   ///< x, and x²
  squares,   ///< (x - center)²
  gradients  ///< dy, and dy times (x - center) * inverse
};

/// Sums for each place of a band over the bands of a part: [2, parts, width], which is
/// [2, parts * width / channels, channels].
template <typename T, Sums kWhat>
struct SumsPlan {
  static constexpr bool kRows = true;
  const T *in, *gradient;
  const std::uint8_t* gates;  ///< of the gradient; null: none were clipped
  const float *center, *inverse;
  double* sums;
  Bands bands;
  std::int64_t parts;

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
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kWhat != Sums::moments) middle[i] = center[(place + i) % bands.channels];
      if constexpr (kWhat == Sums::gradients) factor[i] = inverse[(place + i) % bands.channels];
    }
    const std::int64_t end = bands.end(part, place);
    PENSTOCK_UNROLL(2)
    for (std::int64_t band = bands.first(part); band < end; ++band) {
      const std::int64_t at = band * bands.width + place;
      const auto x = Values<T, kCount>::at(in + at);
      if constexpr (kWhat == Sums::gradients) {
        auto dy = Values<T, kCount>::at(gradient + at);
        close_gates(gates, at, dy);
        for (int i = 0; i < kCount; ++i) {
          const auto owed = static_cast<double>(load(dy.of[i]));
          first[i] += owed;
          second[i] += owed * static_cast<double>((load(x.of[i]) - middle[i]) * factor[i]);
        }
      } else {
        for (int i = 0; i < kCount; ++i) {
          auto value = static_cast<double>(load(x.of[i]));
          if constexpr (kWhat == Sums::squares) value -= static_cast<double>(middle[i]);
          first[i] += kWhat == Sums::moments ? value : value * value;
          if constexpr (kWhat == Sums::moments) second[i] += value * value;
        }
      }
    }
    for (int i = 0; i < kCount; ++i) {
      sums[part * bands.width + place + i] = first[i];
      sums[(parts + part) * bands.width + place + i] = second[i];
    }
  }
};
template <typename T>
using MomentsPlan = SumsPlan<T, Sums::moments>;
template <typename T>
using SquaresPlan = SumsPlan<T, Sums::squares>;
template <typename T>
using GradientsPlan = SumsPlan<T, Sums::gradients>;

/// The totals of SumsPlan's sums, [2, channels]. `kTogether` totals next to each other, which
/// memory reads at once, are a row of the launch.
template <int kTogether>
struct TotalsPlan {
  static constexpr bool kRows = true;
  const double* sums;
  double* totals;
  std::int64_t rows, channels;  ///< channels: a multiple of kTogether

  template <typename Lanes>
  PENSTOCK_TWIN void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int64_t total = row * kTogether;
    const double* const from =
        sums + (total < channels ? total : rows * channels + total - channels);
    constexpr int kAtOnce = kTogether < 2 ? 1 : 2;
    double sum[kTogether] = {};
    PENSTOCK_UNROLL(4)
    for (std::int64_t at = lanes.first(); at < rows; at += lanes.count()) {
      for (int i = 0; i < kTogether; i += kAtOnce) {
        const auto some = Values<double, kAtOnce>::at(from + at * channels + i);
        for (int k = 0; k < kAtOnce; ++k) sum[i + k] += some.of[k];
      }
    }
    for (int i = 0; i < kTogether; ++i) {
      sum[i] = lanes.sum(sum[i]);
      if (lanes.first() == 0) totals[total + i] = sum[i];
    }
  }
};
using TotalPlan = TotalsPlan<1>;
using FourTotalsPlan = TotalsPlan<4>;

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

/// The gradients of a channel's beta and gamma, from the totals of Sums::gradients; they are added
/// to the previous ones unless `keep` is 0. Also the means over `count` values that NormBackPlan
/// takes, [2, channels]. Null `beta` or `means`: not written.
struct NormGradientsPlan {
  const double* totals;
  float *beta, *gamma, *means;
  std::int64_t channels;
  float keep_beta, keep_gamma;
  double count;
  PENSTOCK_TWIN void operator()(std::int64_t c) const {
    const double dy = totals[c];
    const double dyx = totals[channels + c];
    if (beta != nullptr) {
      beta[c] = (keep_beta == 0 ? 0 : beta[c]) + static_cast<float>(dy);
      gamma[c] = (keep_gamma == 0 ? 0 : gamma[c]) + static_cast<float>(dyx);
    }
    if (means != nullptr) {
      means[c] = static_cast<float>(dy / count);
      means[channels + c] = static_cast<float>(dyx / count);
    }
  }
};

/// The normalised values. If `added` is not null, adds it. If `relu`, replaces values <= 0 by 0.
template <typename T>
struct NormPlan {
  static constexpr bool kRows = true;
  const T *in, *added;
  T* out;
  std::uint8_t* gates;  ///< of the relu, for the gradient; null: they are not wanted
  const float *factor, *shift;
  Bands bands;
  bool relu;

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
    const std::int64_t end = bands.end(part, place);
    PENSTOCK_UNROLL(1)
    for (std::int64_t band = bands.first(part); band < end; ++band) {
      const std::int64_t at = band * bands.width + place;
      auto x = Values<T, kCount>::at(in + at);
      Values<T, kCount> other{};
      if (added != nullptr) other = Values<T, kCount>::at(added + at);
      unsigned open = 0;
      for (int i = 0; i < kCount; ++i) {
        float y = load(x.of[i]) * times[i] + plus[i];
        if (added != nullptr) y += load(other.of[i]);
        store(x.of[i], y);
        const bool closed = load(x.of[i]) <= 0;  // a NaN passes, and so does its gradient
        if (closed && relu) x.of[i] = T{};
        open |= closed ? 0U : 1U << i;
      }
      x.put(out + at);
      if (gates != nullptr) gates[at / kCount] = static_cast<std::uint8_t>(open);
    }
  }
};

/// The sums of two arrays of gradients. Those of the second count where gates are open.
template <typename T>
struct GatedSumPlan {
  static constexpr bool kRows = true;
  const T *a, *b;
  const std::uint8_t* gates;
  T* out;
  Bands bands;

  template <typename Lanes>
  PENSTOCK_TWIN void operator()(std::int64_t part, const Lanes& lanes) const {
    each_place<T>(*this, part, lanes);
  }

  template <int kCount>
  PENSTOCK_TWIN void run(std::int64_t place, std::int64_t part) const {
    const std::int64_t end = bands.end(part, place);
    PENSTOCK_UNROLL(1)
    for (std::int64_t band = bands.first(part); band < end; ++band) {
      const std::int64_t at = band * bands.width + place;
      auto sum = Values<T, kCount>::at(a + at);
      auto more = Values<T, kCount>::at(b + at);
      close_gates(gates, at, more);
      for (int i = 0; i < kCount; ++i) store(sum.of[i], load(sum.of[i]) + load(more.of[i]));
      sum.put(out + at);
    }
  }
};

/// The gradient of the input, from the means of NormGradientsPlan.
template <typename T>
struct NormBackPlan {
  static constexpr bool kRows = true;
  const T *in, *gradient;
  const std::uint8_t* gates;  ///< of the gradient; null: none were clipped
  T* in_gradient;
  const float *center, *inverse, *factor, *means;
  Bands bands;

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
      mean_dy[i] = means[c];
      mean_dyx[i] = means[bands.channels + c];
    }
    const std::int64_t end = bands.end(part, place);
    PENSTOCK_UNROLL(1)
    for (std::int64_t band = bands.first(part); band < end; ++band) {
      const std::int64_t at = band * bands.width + place;
      const auto x = Values<T, kCount>::at(in + at);
      auto dy = Values<T, kCount>::at(gradient + at);
      close_gates(gates, at, dy);
      for (int i = 0; i < kCount; ++i) {
        const float normal = (load(x.of[i]) - middle[i]) * scale[i];
        store(dy.of[i], times[i] * (load(dy.of[i]) - mean_dy[i] - normal * mean_dyx[i]));
      }
      dy.put(in_gradient + at);
    }
  }
};

}  // namespace penstock::towers
