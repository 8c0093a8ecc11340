#include "pipeline/stages/permutation.h"

#include <bit>
#include <numeric>

#include <penstock/rng.h>

namespace penstock {

Permutation::Permutation(std::uint64_t size, std::uint64_t key, std::uint64_t path,
                         std::uint32_t op)
    : size_(size) {
  Rng rng(key, path, op);
  if (size <= kTable) {
    table_.resize(size);
    std::iota(table_.begin(), table_.end(), std::uint16_t{0});
    for (std::uint64_t i = size; i > 1; --i) std::swap(table_[i - 1], table_[rng.below(i)]);
    return;
  }
  half_bits_ = static_cast<int>(std::bit_width(size - 1) + 1) / 2;
  for (std::uint64_t& round_key : keys_) round_key = rng.next_u64();
}

std::uint64_t Permutation::operator()(std::uint64_t position) const noexcept {
  if (!table_.empty()) return table_[position];
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t value = position;
  do {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (const std::uint64_t round_key : keys_) {
      const std::uint64_t next = left ^ (mix64(right + round_key) & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return value;
}

}  // namespace penstock
