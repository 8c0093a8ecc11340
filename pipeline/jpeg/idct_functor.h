// The inverse DCT of one block, one dimension at a time, for the host and for CUDA. Its arithmetic,
// including overflow, is that of libjpeg-turbo's default on x86-64 with AVX2. Source of the
// transform: Loeffler, Ligtenberg, Moschytz, ICASSP 1989. Source of its fixed point and of the
// reduced sizes: libjpeg's jidctint and jidctred.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pipeline/core/both.h"

namespace penstock::jpeg::plain {

inline constexpr int kBits = 13;      // fraction bits of constants
inline constexpr int kExtraBits = 2;  // more fraction bits, which the first pass keeps

PENSTOCK_BOTH constexpr std::int16_t wrap(int value) noexcept {
  return static_cast<std::int16_t>(value);
}
PENSTOCK_BOTH constexpr std::int16_t saturate(std::int32_t value) noexcept {
  return static_cast<std::int16_t>(both::clamp(value, -32768, 32767));
}
/// Wraps, as sums do in the library.
PENSTOCK_BOTH constexpr std::int32_t add(std::int32_t a, std::int32_t b) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}
PENSTOCK_BOTH constexpr std::int32_t subtract(std::int32_t a, std::int32_t b) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b));
}
PENSTOCK_BOTH constexpr std::int32_t mix(std::int16_t a, int by_a, std::int16_t b,
                                         int by_b) noexcept {
  return add(a * by_a, b * by_b);
}
template <int kShift>
PENSTOCK_BOTH constexpr std::int32_t descale_wide(std::int32_t value) noexcept {
  return add(value, 1 << (kShift - 1)) >> kShift;
}
template <int kShift>
PENSTOCK_BOTH constexpr std::int16_t descale(std::int32_t value) noexcept {
  return saturate(descale_wide<kShift>(value));
}
PENSTOCK_BOTH constexpr std::uint8_t sample(std::int16_t value) noexcept {
  return static_cast<std::uint8_t>(both::clamp<int>(value, -128, 127) + 128);
}
/// Returns the first pass's result in each row of a column that is zero below its first row. The
/// library does not saturate it.
PENSTOCK_BOTH constexpr std::int16_t flat(std::int16_t value) noexcept {
  return wrap(value * (1 << kExtraBits));
}

/// Transforms one dimension, in[0, step, …, 7 step], in place.
template <int kShift>
PENSTOCK_BOTH inline void transform8(std::int16_t* in, std::size_t step) noexcept {
  const auto at = [&](std::size_t i) { return in[i * step]; };
  const std::int32_t even2 = mix(at(2), 4433, at(6), 4433 - 15137);
  const std::int32_t even3 = mix(at(2), 4433 + 6270, at(6), 4433);
  const std::int32_t sum = wrap(at(0) + at(4)) * (1 << kBits);
  const std::int32_t difference = wrap(at(0) - at(4)) * (1 << kBits);
  const std::int32_t even[4] = {add(sum, even3), add(difference, even2),
                                subtract(difference, even2), subtract(sum, even3)};
  const std::int16_t z3 = wrap(at(7) + at(3));
  const std::int16_t z4 = wrap(at(5) + at(1));
  const std::int32_t both3 = mix(z3, 9633 - 16069, z4, 9633);
  const std::int32_t both4 = mix(z3, 9633, z4, 9633 - 3196);
  const std::int32_t odd[4] = {add(mix(at(7), -7373, at(1), 12299 - 7373), both4),
                               add(mix(at(5), -20995, at(3), 25172 - 20995), both3),
                               add(mix(at(5), 16819 - 20995, at(3), -20995), both4),
                               add(mix(at(7), 2446 - 7373, at(1), -7373), both3)};
  for (std::size_t i = 0; i < 4; ++i) {
    in[i * step] = descale<kShift>(add(even[i], odd[i]));
    in[(7 - i) * step] = descale<kShift>(subtract(even[i], odd[i]));
  }
}

/// Transforms eight values to four. `out` may be `in`.
template <int kShift>
PENSTOCK_BOTH inline void transform4(const std::int16_t* in, std::size_t step, std::int16_t* out,
                                     std::size_t out_step) noexcept {
  const auto at = [&](std::size_t i) { return in[i * step]; };
  const std::int32_t first = at(0) * (1 << (kBits + 1));
  const std::int32_t second = mix(at(2), 15137, at(6), -6270);
  const std::int32_t even[2] = {add(first, second), subtract(first, second)};
  const std::int32_t odd[2] = {
      add(mix(at(1), 20995, at(3), 7373), mix(at(5), -4926, at(7), -4176)),
      add(mix(at(1), 8697, at(3), -17799), mix(at(5), 11893, at(7), -1730))};
  for (std::size_t i = 0; i < 2; ++i) {
    out[i * out_step] = descale<kShift>(add(even[i], odd[i]));
    out[(3 - i) * out_step] = descale<kShift>(subtract(even[i], odd[i]));
  }
}

/// Returns the odd part of a transform to two values. Its inputs are saturated to 16 bits. Only the
/// even part, which comes from the first column, keeps the value from before: see finish_two.
PENSTOCK_BOTH inline std::int32_t odd2(const std::int16_t* in, std::size_t step) noexcept {
  return add(mix(in[step], 29692, in[3 * step], -10426),
             mix(in[5 * step], 6967, in[7 * step], -5906));
}

// The shifts that descale the results of each pass, for each size.
inline constexpr int kFirst8 = kBits - kExtraBits;
inline constexpr int kSecond8 = kBits + kExtraBits + 3;
inline constexpr int kFirst4 = kFirst8 + 1;
inline constexpr int kSecond4 = kSecond8 + 1;
inline constexpr int kFirst2 = kFirst8 + 2;
inline constexpr int kSecond2 = kSecond8 + 2;

/// The first pass of a transform to two values, for one column: its values before they saturate.
PENSTOCK_BOTH inline void halve_twice(const std::int16_t* in, std::size_t step,
                                      std::int32_t (&both)[2]) noexcept {
  const std::int32_t even = in[0] * (1 << (kBits + 2));
  const std::int32_t odd = odd2(in, step);
  both[0] = descale_wide<kFirst2>(add(even, odd));
  both[1] = descale_wide<kFirst2>(subtract(even, odd));
}

/// The second pass, for a row. `first` is its first value before it saturated.
PENSTOCK_BOTH inline void finish_two(std::int32_t first, const std::int16_t* row,
                                     std::uint8_t* out) noexcept {
  const auto even = static_cast<std::int32_t>(static_cast<std::uint32_t>(first) << (kBits + 2));
  const std::int32_t odd = odd2(row, 1);
  out[0] = sample(descale<kSecond2>(add(even, odd)));
  out[1] = sample(descale<kSecond2>(subtract(even, odd)));
}

/// Returns the only sample of a block. As the library's plain C code does, it wraps to 10 bits.
PENSTOCK_BOTH inline std::uint8_t only_sample(std::int16_t dc, std::int16_t quantisation) noexcept {
  const int value = (dc * quantisation + 4) >> 3;
  const int wrapped = ((value + 512) & 1023) - 512;
  return static_cast<std::uint8_t>(both::clamp(wrapped + 128, 0, 255));
}

}  // namespace penstock::jpeg::plain
