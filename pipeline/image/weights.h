// The weights of one sample of an antialiased bilinear resize, for the host and for CUDA. Source:
// Pillow's Resample.c (precompute_coeffs, BILINEAR), with weights of 16 bits.
#pragma once

#include <cstdint>

#include "pipeline/core/both.h"

namespace penstock::image {

/// One axis of a resize: the interval [begin, end) of `in` samples becomes `out` samples, of which
/// `count` from `first` on are wanted.
struct Axis {
  int in = 0;
  double begin = 0;
  double end = 0;
  int out = 0;
  int first = 0;
  int count = 0;
  bool mirrored = false;  ///< the wanted samples in reverse order

  friend bool operator==(const Axis&, const Axis&) = default;
};

enum class Precision : std::uint8_t {
  exact,  ///< 2^bits <= 16384 x the largest weight, for sums of products in 32 bits
  /// Weights in 2^-15, where a weight of 1 is 32767, for products rounded to 16 bits.
  q15,
};

/// The values that all samples of an axis share.
struct Scaling {
  double scale = 1;
  double support = 1;  ///< half the triangle's width
  double inverse = 1;  ///< of the support
  /// The most input samples that one sample takes, or a little more.
  int stride = 3;
};
PENSTOCK_BOTH inline Scaling scaling_of(const Axis& axis) noexcept {
  Scaling scaling;
  scaling.scale = (axis.end - axis.begin) / axis.out;
  scaling.support = both::most(scaling.scale, 1.0);
  scaling.inverse = 1.0 / scaling.support;
  auto whole = static_cast<int>(scaling.support);
  if (whole < scaling.support) ++whole;
  scaling.stride = 2 * whole + 1;
  return scaling;
}

/// Returns the precision for mixing rows. Columns are mixed exactly. Rows are mixed by rounded
/// products if so few are added that their errors stay below half a level.
PENSTOCK_BOTH inline Precision row_precision(double scale) noexcept {
  return scale <= 64 ? Precision::q15 : Precision::exact;
}

/// Returns the bits of weights: they are multiples of 2^-bits.
PENSTOCK_BOTH inline int weight_bits(double scale, Precision precision) noexcept {
  if (precision == Precision::q15) return 15;
  // The largest weight is about 1 / scale if the scale is above 1.
  int bits = 14;
  for (; bits < 22 && scale >= 2; scale /= 2) ++bits;
  return bits;
}

/// The input samples [low, high) of one sample, and the position of its middle.
struct Taps {
  int low = 0;
  int high = 1;
  double center = 0;
};

PENSTOCK_BOTH inline double weight_of(int x, double center, double inverse) noexcept {
  const double distance = x - center + 0.5;
  return 1.0 - (distance < 0 ? -distance : distance) * inverse;
}

/// Returns the taps of the wanted sample `i`.
PENSTOCK_BOTH inline Taps taps_of(const Axis& axis, const Scaling& scaling, int i) noexcept {
  const int position = axis.first + (axis.mirrored ? axis.count - 1 - i : i);
  Taps taps;
  taps.center = axis.begin + (position + 0.5) * scaling.scale;
  taps.low = both::clamp(static_cast<int>(taps.center - scaling.support + 0.5), 0, axis.in - 1);
  taps.high =
      both::clamp(static_cast<int>(taps.center + scaling.support + 0.5), taps.low + 1, axis.in);
  // Rounding may have included a sample without weight at each end.
  const auto nothing = [&](int x) { return weight_of(x, taps.center, scaling.inverse) <= 0; };
  if (taps.high - taps.low > 1 && nothing(taps.low)) ++taps.low;
  if (taps.high - taps.low > 1 && nothing(taps.high - 1)) --taps.high;
  return taps;
}

/// Writes taps.high - taps.low weights. All are >= 0, and their sum is 2^bits.
PENSTOCK_BOTH inline void weigh(const Taps& taps, const Scaling& scaling, Precision precision,
                                std::int16_t* out) noexcept {
  const int used = taps.high - taps.low;
  const int bits = weight_bits(scaling.scale, precision);
  const auto value_of = [&](int t) {
    return both::most(weight_of(taps.low + t, taps.center, scaling.inverse), 0.0);
  };
  double sum = 0;
  for (int t = 0; t < used; ++t) sum += value_of(t);
  const bool none = sum == 0;
  if (none) sum = 1;
  // In exact filters, a weight must also split into a signed high byte and a low byte.
  const int most = precision == Precision::q15 ? 32767 : 32767 - 128;
  const double one = (1 << bits) / sum;
  int left = 1 << bits;
  for (int t = 0; t < used; ++t) {
    const double value = none && t == 0 ? 1 : value_of(t);
    const int weight = static_cast<int>(value * one + 0.5);
    out[t] = static_cast<std::int16_t>(both::least(weight, most));
    left -= weight;
  }
  // The rest from rounding goes to a middle tap, which is the largest or next to it.
  out[used / 2] = static_cast<std::int16_t>(both::clamp(out[used / 2] + left, 0, most));
}

/// The input samples [low, high) that the wanted samples need. Taps move in one direction, so the
/// first and the last sample determine the span.
struct Span {
  int low = 0;
  int high = 0;
};
PENSTOCK_BOTH inline Span span_of(const Axis& axis) noexcept {
  const Scaling scaling = scaling_of(axis);
  const Taps a = taps_of(axis, scaling, 0);
  const Taps b = taps_of(axis, scaling, axis.count - 1);
  return {both::least(a.low, b.low), both::most(a.high, b.high)};
}

/// Samples [begin, begin + length) of a source that is shrunk by `denominator`, as an axis without
/// a window. `first` is where its input begins in the shrunk source.
struct ShrunkAxis {
  int first = 0;
  Axis axis{};
};
PENSTOCK_BOTH inline ShrunkAxis shrunk_axis(int begin, int length, int denominator,
                                            int target) noexcept {
  ShrunkAxis input;
  input.first = begin / denominator;
  const int last = (begin + length + denominator - 1) / denominator;
  input.axis.in = last - input.first;
  input.axis.begin = static_cast<double>(begin) / denominator - input.first;
  input.axis.end = input.axis.begin + static_cast<double>(length) / denominator;
  input.axis.out = target;
  return input;
}

}  // namespace penstock::image
