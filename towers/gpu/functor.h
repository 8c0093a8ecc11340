// The building blocks of kernels: functors that the device's kernels and their twins on the CPU
// share. Neither fuses a multiplication with an addition (-ffp-contract=off, -fmad=false).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// Only an attribute: nvcc compiles such functions for both host and device.
#if defined(__CUDACC__)
#define PENSTOCK_TWIN __host__ __device__
#else
#define PENSTOCK_TWIN
#endif

// Unrolls the next loop `times` times, 1: not at all. nvcc does not read ahead of stores.
#if defined(__CUDA_ARCH__)
#define PENSTOCK_UNROLL_TEXT(text) _Pragma(#text)
#define PENSTOCK_UNROLL(times) PENSTOCK_UNROLL_TEXT(unroll times)
#else
#define PENSTOCK_UNROLL(times)
#endif

namespace penstock::towers {

/// A bfloat16 in memory.
struct Bf16 {
  std::uint16_t bits = 0;
};

PENSTOCK_TWIN inline float load(float value) {
  return value;
}
PENSTOCK_TWIN inline float load(Bf16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  float result = 0;
  memcpy(&result, &bits, sizeof(bits));
  return result;
}

PENSTOCK_TWIN inline void store(float& to, float value) {
  to = value;
}
/// Rounds to nearest, ties to even. Source: IEEE 754-2019, 4.3.1.
PENSTOCK_TWIN inline void store(Bf16& to, float value) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  to.bits = (bits & 0x7fffffffU) > 0x7f800000U
                ? static_cast<std::uint16_t>((bits >> 16) | 0x40U)
                : static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// The values that a thread reads or writes at once.
template <typename T>
inline constexpr int kWide = 16 / sizeof(T);

#if defined(__CUDACC__)
/// The type that one instruction reads or writes.
template <int kBytes>
struct Words;
template <>
struct Words<2> {
  using type = unsigned short;
};
template <>
struct Words<4> {
  using type = unsigned;
};
template <>
struct Words<8> {
  using type = uint2;
};
template <>
struct Words<16> {
  using type = uint4;
};
template <int kBytes>
using WordOf = typename Words<kBytes>::type;
#endif

/// Some values that lie next to each other. On a device, `at` and `put` need a place that is
/// aligned to all of them together.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Values {
  T of[kCount];
#if defined(__CUDACC__)
  using Word = WordOf<sizeof(T) * kCount>;
#endif

  PENSTOCK_TWIN static Values at(const T* from) {
#if defined(__CUDA_ARCH__)
    // Through a type of its own, as nvcc splits copies of structures when it unrolls a loop.
    const Word word = *reinterpret_cast<const Word*>(from);
    Values values;
    memcpy(&values, &word, sizeof(word));
    return values;
#else
    Values values;
    for (int i = 0; i < kCount; ++i) values.of[i] = from[i];
    return values;
#endif
  }
  PENSTOCK_TWIN void put(T* to) const {
#if defined(__CUDA_ARCH__)
    Word word;
    memcpy(&word, this, sizeof(word));
    *reinterpret_cast<Word*>(to) = word;
#else
    for (int i = 0; i < kCount; ++i) to[i] = of[i];
#endif
  }
};

/// Adds while other threads may add to the same value; the order is undefined.
PENSTOCK_TWIN inline void add_shared(float& to, float value) {
#if defined(__CUDA_ARCH__) || defined(PENSTOCK_EMULATED)
  atomicAdd(&to, value);
#else
  to += value;
#endif
}

/// Philox 4x32-10: words 0 to 3 of block (block, 0, low, high) under `key`, equal to the library's
/// philox4x32. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
struct PhiloxBlock {
  std::uint32_t words[4];
};
PENSTOCK_TWIN inline PhiloxBlock philox_block(std::uint32_t block, std::uint64_t number,
                                              std::uint64_t key) {
  PhiloxBlock x{
      {block, 0, static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)}};
  auto low = static_cast<std::uint32_t>(key);
  auto high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * x.words[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * x.words[2];
    x = {{static_cast<std::uint32_t>(b >> 32) ^ x.words[1] ^ low, static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ x.words[3] ^ high, static_cast<std::uint32_t>(a)}};
    low += 0x9E3779B9U;
    high += 0xBB67AE85U;
  }
  return x;
}

/// The CPU's lanes, for plans. A plan is plain data with one of these operators. Kernels receive it
/// by value.
///     void operator()(std::int64_t i) const;                     // value i alone
///     template <class Lanes> void operator()(std::int64_t row, const Lanes&) const;  // kRows
/// The lanes of one group call the second one together. Each of them takes every `count()`th of a
/// row's values, from `first()` on. `sum` and `max` combine the values of all lanes, and return the
/// result to all lanes.
struct OneLane {
  static std::int64_t first() { return 0; }
  static std::int64_t count() { return 1; }
  static double sum(double value) { return value; }
  static double max(double value) { return value; }
};

template <typename Plan>
concept RowPlan = requires {
  requires Plan::kRows;
};

/// Runs all `count` values, or rows, on the calling thread: the CPU twin of a kernel.
template <typename Plan>
void run_here(const Plan& plan, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (RowPlan<Plan>) {
      plan(i, OneLane());
    } else {
      plan(i);
    }
  }
}

}  // namespace penstock::towers
