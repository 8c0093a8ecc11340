// A keyed permutation of [0, n) in O(1) memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace penstock {

/// A pseudorandom permutation of [0, n), computed position by position. Up to kTable elements it is
/// a table with an exactly uniform permutation (Fisher-Yates). Above that, it is a balanced Feistel
/// network over the next power of four, applied repeatedly until the result is below n (Black,
/// Rogaway: "Ciphers with arbitrary finite domains", 2002). Immutable and thread-safe.
class Permutation {
 public:
  static constexpr std::uint64_t kTable = 4096;

  Permutation(std::uint64_t size, std::uint64_t key, std::uint64_t path, std::uint32_t op);
  /// REQUIRES: position < size.
  std::uint64_t operator()(std::uint64_t position) const noexcept;

 private:
  static constexpr int kRounds = 6;
  std::uint64_t size_;
  int half_bits_ = 0;
  std::array<std::uint64_t, kRounds> keys_{};
  std::vector<std::uint16_t> table_;
};

}  // namespace penstock
