// The entropy-coded bytes of one lane: unstuffed, a few kilobytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pipeline/work/jpeg/scan.h"

namespace penstock::jpeg {

/// What is unstuffed at once, and the memory that takes: whole vectors are written and read.
inline constexpr std::size_t kLaneBytes = 4096;
inline constexpr std::size_t kLaneBytesRoom = kLaneBytes + 4 * 64;

struct LaneBytes {
  std::uint8_t* buffer = nullptr;      ///< of kLaneBytesRoom
  const std::uint8_t* next = nullptr;  ///< what is unstuffed next
  const std::uint8_t* end = nullptr;
  std::uint32_t count = 0;  ///< in the buffer; behind them are zeros where the bytes have ended
  bool ended = false;       ///< at a marker, or at the end of the file
};

/// Begins where `bits` stand and returns the number of their next bit.
std::uint32_t begin_bytes(LaneBytes& bytes, const Bits& bits) noexcept;
/// From this bit on a lane must stop. It may have read as far as it goes with one step, 32 bits.
std::uint32_t limit_of(const LaneBytes& bytes) noexcept;
/// Behind the limit: unstuffs more and returns the bit's new number. REQUIRES: not ended.
std::uint32_t refill_bytes(LaneBytes& bytes, std::uint32_t bit) noexcept;
/// Puts `bits` where the lane stands. REQUIRES: no bit that is none was taken.
void leave_bytes(const LaneBytes& bytes, std::uint32_t bit, Bits& bits) noexcept;

}  // namespace penstock::jpeg
