#include <penstock/rng.h>

#include <cmath>
#include <numbers>

namespace penstock {
namespace {

__extension__ using U128 = unsigned __int128;

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

std::uint32_t Rng::next_u32() noexcept {
  if (used_ == 4) {
    bits_ = philox4x32({static_cast<std::uint32_t>(ordinal_),
                        static_cast<std::uint32_t>(ordinal_ >> 32), op_, block_++},
                       {static_cast<std::uint32_t>(key_), static_cast<std::uint32_t>(key_ >> 32)});
    used_ = 0;
  }
  return bits_[used_++];
}

std::uint64_t Rng::next_u64() noexcept {
  const std::uint64_t low = next_u32();
  return low | std::uint64_t{next_u32()} << 32;
}

double Rng::uniform() noexcept {
  return static_cast<double>(next_u64() >> 11) * 0x1p-53;
}

std::uint64_t Rng::below(std::uint64_t bound) noexcept {
  U128 product = static_cast<U128>(next_u64()) * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < threshold) {
      product = static_cast<U128>(next_u64()) * bound;
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double Rng::normal() noexcept {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace penstock
