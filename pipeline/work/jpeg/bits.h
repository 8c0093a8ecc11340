// The parts of the bit reader that are seldom needed.
#pragma once

#include <cstdint>

#include "pipeline/work/jpeg/scan.h"

namespace penstock::jpeg {

/// Fills the window byte by byte, to 56…63 bits.
void refill_slowly(Bits& bits) noexcept;

/// Goes on behind a marker, if that is what comes next and it is this one.
bool skip_marker(Bits& bits, std::uint8_t marker) noexcept;

/// Goes on with the next restart interval. False if it does not follow here.
bool begin_interval(Scan& scan) noexcept;

/// A symbol of any code, or -1 for bits that are none. REQUIRES: 16 bits in the window.
int take_symbol(Bits& bits, const Code& code) noexcept;

/// A value of `size` (at most 15) bits. REQUIRES: they are in the window. Source: ITU T.81,
/// F.2.2.1.
inline int take_value(Bits& bits, int size) noexcept {
  const auto raw = static_cast<int>(bits.window >> 1 >> (63 - size));
  bits.window <<= size;
  bits.count -= size;
  const int positive = size > 0 && raw >> (size - 1) == 0 ? 0 : 1;
  return positive != 0 ? raw : raw + 1 - (1 << size);
}

/// One symbol of a block that stands at coefficient `k`, by the long way; returns where the block
/// stands then: up to 64, kEndOfBlock when it has ended, kBadBlock for anything libjpeg-turbo might
/// not take as we do. `block` may be null: the value is dropped.
unsigned take_run(Bits& bits, const Code& code, unsigned k, std::int16_t* block) noexcept;
inline constexpr unsigned kBadBlock = 400;

}  // namespace penstock::jpeg
