// The entropy-coded bytes of one lane, unstuffed a few kilobytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pipeline/jpeg/scan.h"

namespace penstock::jpeg {

/// The number of bytes that are unstuffed at once, and the memory for them: whole vectors are
/// written and read.
inline constexpr std::size_t kLaneBytes = 4096;
inline constexpr std::size_t kLaneBytesRoom = kLaneBytes + 4 * 64;

struct LaneBytes {
  std::uint8_t* buffer = nullptr;      ///< of kLaneBytesRoom
  const std::uint8_t* next = nullptr;  ///< the next byte to unstuff
  const std::uint8_t* end = nullptr;
  /// Bytes in the buffer. If the input has ended, zeros follow them.
  std::uint32_t count = 0;
  bool ended = false;  ///< at a marker, or at the end of the file
};

/// Begins at the position of `bits` and returns the number of its next bit.
std::uint32_t begin_bytes(LaneBytes& bytes, const Bits& bits) noexcept;
/// Returns the bit from which on a lane must stop. The lane may have read beyond it by one step, 32
/// bits.
std::uint32_t limit_of(const LaneBytes& bytes) noexcept;
/// Unstuffs more bytes for a lane behind the limit. Returns the new number of its bit. REQUIRES:
/// the bytes have not ended.
std::uint32_t refill_bytes(LaneBytes& bytes, std::uint32_t bit) noexcept;
/// Puts `bits` at the position of the lane. REQUIRES: the lane took no bit behind the end.
void leave_bytes(const LaneBytes& bytes, std::uint32_t bit, Bits& bits) noexcept;

}  // namespace penstock::jpeg
