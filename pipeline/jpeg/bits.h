// The rarely used parts of the bit reader.
#pragma once

#include <cstdint>

#include "pipeline/jpeg/scan.h"

namespace penstock::jpeg {

/// Fills the window byte by byte, to 56…63 bits.
void refill_slowly(Bits& bits) noexcept;

/// Continues behind a marker, if the next bytes are this marker. Otherwise returns false.
bool skip_marker(Bits& bits, std::uint8_t marker) noexcept;

/// Continues with the next restart interval. Returns false if it does not follow here.
bool begin_interval(Scan& scan) noexcept;

/// Takes a symbol of any code. Returns -1 if the bits are not a code. REQUIRES: 16 bits in the
/// window.
int take_symbol(Bits& bits, const Code& code) noexcept;

/// Takes a value of `size` (at most 15) bits. REQUIRES: they are in the window. Source: ITU T.81,
/// F.2.2.1.
inline int take_value(Bits& bits, int size) noexcept {
  const auto raw = static_cast<int>(bits.window >> 1 >> (63 - size));
  bits.window <<= size;
  bits.count -= size;
  const int positive = size > 0 && raw >> (size - 1) == 0 ? 0 : 1;
  return positive != 0 ? raw : raw + 1 - (1 << size);
}

/// Takes one symbol of a block that stands at coefficient `k`, without the tables of runs. Returns
/// the new position in the block: up to 64, kEndOfBlock if the block has ended, or kBadBlock for
/// bits that libjpeg-turbo may treat in another way. If `block` is null, the value is dropped.
unsigned take_run(Bits& bits, const Code& code, unsigned k, std::int16_t* block) noexcept;
inline constexpr unsigned kBadBlock = 400;

}  // namespace penstock::jpeg
