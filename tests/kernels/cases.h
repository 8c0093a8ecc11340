// Helpers that the tests of kernels share: memory with canaries, filled from a seed.
#pragma once

#include "tests/kernels/emulator.h"  // first

#include <bit>
#include <cstring>
#include <deque>
#include <span>

#include <penstock/rng.h>

namespace penstock::test {

/// The number of cases for each kernel.
inline constexpr int kCases = 60;

/// A launcher that puts kernels into a queue.
struct Emulate {
  emulation::Queue& queue;
  template <typename Body, typename Grid>
  void operator()(const Body& body, const Grid& grid) const {
    queue.add(body, {grid.x, grid.y, grid.z});
  }
};

/// The allocations of one case. Two objects that are filled from the same seed are equal.
class Memory {
 public:
  explicit Memory(std::uint64_t seed) : rng(seed, 0, 0) {}

  /// Allocates `count` values, each made by `make()`.
  template <typename T, typename Make>
  T* fill(std::int64_t count, Make make) {
    T* const data = leave<T>(count);
    for (std::int64_t i = 0; i < count; ++i) data[i] = make();
    return data;
  }
  /// Allocates `count` values of garbage.
  template <typename T>
  T* leave(std::int64_t count) {
    return reinterpret_cast<T*>(
        parts.emplace_back(static_cast<std::size_t>(count) * sizeof(T)).data());
  }
  /// Returns a number from `low` to `high`, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  float real(float low = -2, float high = 2) {
    return low + (high - low) * static_cast<float>(rng.below(1 << 20)) / (1 << 20);
  }

  Rng rng;
  std::deque<emulation::Fenced> parts;
};

/// Returns the first difference as part * 1e9 + byte; -1: none.
inline std::int64_t difference(const Memory& a, const Memory& b) {
  for (std::size_t p = 0; p < a.parts.size(); ++p) {
    if (std::memcmp(a.parts[p].data(), b.parts[p].data(), a.parts[p].size()) == 0) continue;
    for (std::size_t i = 0; i < a.parts[p].size(); ++i)
      if (a.parts[p].data()[i] != b.parts[p].data()[i])
        return static_cast<std::int64_t>(p) * 1'000'000'000 + static_cast<std::int64_t>(i);
  }
  return -1;
}

}  // namespace penstock::test
