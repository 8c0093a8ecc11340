// Functions for the host and for CUDA. Both compile the same source and compute the same bits, as
// neither fuses a multiplication with an addition (-ffp-contract=off, -fmad=false).
#pragma once

#include <cstdint>

// Only adds an attribute: nvcc then compiles such a function for both.
#if defined(__CUDACC__)
#define PENSTOCK_BOTH __host__ __device__
#else
#define PENSTOCK_BOTH
#endif

namespace penstock::both {

// Functions that the standard library has for the host only.
template <typename T>
PENSTOCK_BOTH constexpr T least(T a, T b) noexcept {
  return b < a ? b : a;
}
template <typename T>
PENSTOCK_BOTH constexpr T most(T a, T b) noexcept {
  return a < b ? b : a;
}
/// REQUIRES: low <= high.
template <typename T>
PENSTOCK_BOTH constexpr T clamp(T value, T low, T high) noexcept {
  return value < low ? low : value > high ? high : value;
}
template <typename T>
PENSTOCK_BOTH constexpr T divide_up(T a, T b) noexcept {
  return (a + b - 1) / b;
}
/// Returns the upper word of `high` and `low`, shifted to the left by up to 31 bits.
PENSTOCK_BOTH inline std::uint32_t shift_words(std::uint32_t high, std::uint32_t low,
                                               std::uint32_t by) noexcept {
#if defined(__CUDA_ARCH__)
  return __funnelshift_l(low, high, by);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) << by >> 32);
#endif
}
PENSTOCK_BOTH inline int count_bits(std::uint32_t value) noexcept {
#if defined(__CUDA_ARCH__)
  return __popc(value);
#else
  return __builtin_popcount(value);
#endif
}

}  // namespace penstock::both
