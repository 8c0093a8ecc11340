// Counter-based random numbers: a function of their place in a run, and not of the thread that
// computes them.
#pragma once

#include <array>
#include <cstdint>

namespace penstock {

/// Mixes 64 bits so that every input bit reaches every output bit. Source: SplitMix64's finaliser
/// (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Returns the ordinal of child `index` below `parent`: one more step of a path of indices.
constexpr std::uint64_t mix_path(std::uint64_t parent, std::uint64_t index) noexcept {
  return mix64(parent + 0x9e3779b97f4a7c15ULL * (index + 1));
}

/// Returns 128 random bits for a counter and a key: Philox4x32-10. Source: Salmon et al., "Parallel
/// random numbers: as easy as 1, 2, 3", SC'11; checked against the authors' known answers.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept;

/// The random numbers of one op on one element, keyed by (seed and epoch), ordinal and op. Cheap to
/// construct; nothing is computed before the first draw. Not synchronised.
class Rng {
 public:
  /// Makes the numbers of op `op` on the element `ordinal`.
  Rng(std::uint64_t key, std::uint64_t ordinal, std::uint32_t op) noexcept
      : key_(key), ordinal_(ordinal), op_(op) {}

  /// Returns 32 random bits.
  std::uint32_t next_u32() noexcept;
  /// Returns 64 random bits.
  std::uint64_t next_u64() noexcept;
  /// Returns a number that is uniform in [0, 1), with 53 bits.
  double uniform() noexcept;
  /// Returns a number that is uniform in [low, high).
  double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
  /// Returns a number that is unbiased in [0, bound). REQUIRES: bound > 0. Source: Lemire, "Fast
  /// random integer generation in an interval", 2019.
  std::uint64_t below(std::uint64_t bound) noexcept;
  /// Returns a standard normal number (Box-Muller).
  double normal() noexcept;
  /// Returns true with this probability.
  bool coin(double probability) noexcept { return uniform() < probability; }

 private:
  std::uint64_t key_;
  std::uint64_t ordinal_;
  std::uint32_t op_;
  std::uint32_t block_ = 0;
  std::uint32_t used_ = 4;
  std::array<std::uint32_t, 4> bits_;
};

/// Returns the key of an epoch's random numbers.
constexpr std::uint64_t epoch_key(std::uint64_t seed, std::uint64_t epoch) noexcept {
  return mix_path(mix64(seed), epoch);
}

}  // namespace penstock
