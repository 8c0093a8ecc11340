#include "pipeline/jpeg/lane_bytes.h"

#include <algorithm>
#include <cstring>

#include "pipeline/jpeg/bits.h"
#include "pipeline/jpeg/lane_steps.h"

namespace penstock::jpeg {

namespace {

constexpr std::uint32_t kStep = 8;  // bytes that a step, or a long symbol, may read

void unstuff(LaneBytes& bytes) noexcept {
  copy_bytes(bytes);
  while (!bytes.ended && bytes.count < kLaneBytes) {
    if (bytes.next == bytes.end) {
      bytes.ended = true;
      break;
    }
    if (*bytes.next == 0xff) {
      if (bytes.end - bytes.next < 2 || bytes.next[1] != 0) {
        bytes.ended = true;
        break;
      }
      ++bytes.next;
      bytes.buffer[bytes.count++] = 0xff;
    } else {
      bytes.buffer[bytes.count++] = *bytes.next;
    }
    ++bytes.next;
  }
  std::memset(bytes.buffer + bytes.count, 0, 2 * kStep);
}

}  // namespace

std::uint32_t begin_bytes(LaneBytes& bytes, const Bits& bits) noexcept {
  // The bytes in the window were already read, so they come first.
  bytes.next = bits.next;
  bytes.end = bits.end;
  bytes.ended = false;
  bytes.count = 0;
  const int whole = (std::max(bits.count - bits.missing, 0) + 7) / 8;
  const int bit = 8 * whole - std::max(bits.count - bits.missing, 0);
  const std::uint64_t window = bits.window >> bit;
  for (int i = 0; i < whole; ++i)
    bytes.buffer[bytes.count++] = static_cast<std::uint8_t>(window >> (56 - 8 * i));
  unstuff(bytes);
  return static_cast<std::uint32_t>(bit);
}

std::uint32_t limit_of(const LaneBytes& bytes) noexcept {
  return 8 * (bytes.ended ? bytes.count : bytes.count - kStep);
}

std::uint32_t refill_bytes(LaneBytes& bytes, std::uint32_t bit) noexcept {
  const std::uint32_t from = bit / 8;
  bytes.count -= from;
  std::memmove(bytes.buffer, bytes.buffer + from, bytes.count);
  unstuff(bytes);
  return bit % 8;
}

void leave_bytes(const LaneBytes& bytes, std::uint32_t bit, Bits& bits) noexcept {
  const std::uint8_t* at = bytes.next;
  // A zero behind 0xff is stuffed. Before the end, there is no other.
  for (std::uint32_t i = bytes.count; i > bit / 8; --i) at -= at[-1] == 0 && at[-2] == 0xff ? 2 : 1;
  begin_bits(bits, {at, bytes.end});
  refill_slowly(bits);
  bits.window <<= bit % 8;
  bits.count -= static_cast<int>(bit % 8);
}

}  // namespace penstock::jpeg
