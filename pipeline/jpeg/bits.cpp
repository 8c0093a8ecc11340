#include "pipeline/jpeg/bits.h"

#include <algorithm>
#include <cstring>

namespace penstock::jpeg {

namespace {

constexpr std::ptrdiff_t kWord = 8;
/// libjpeg-turbo holds at most 64 bits and looks one byte beyond a 0xff. With stuffing, that may be
/// twice as many bytes.
constexpr std::ptrdiff_t kReadAhead = 32;

void find_plain(Bits& bits) noexcept {
  const auto left = static_cast<std::size_t>(bits.end - bits.next);
  const void* found = left == 0 ? nullptr : std::memchr(bits.next, 0xff, left);
  const auto* stop = found == nullptr ? bits.end : static_cast<const std::uint8_t*>(found);
  bits.plain = stop - bits.next >= kWord ? stop - kWord : nullptr;
}

void add_zeros(Bits& bits) noexcept {
  const int added = (63 - bits.count) / 8 * 8;
  bits.count += added;
  bits.missing += added;
}

}  // namespace

void begin_bits(Bits& bits, std::span<const std::uint8_t> bytes) noexcept {
  bits = {};
  bits.next = bytes.data();
  bits.end = bytes.data() + bytes.size();
  find_plain(bits);
}

void refill_slowly(Bits& bits) noexcept {
  bool passed = false;
  while (bits.count < 56) {
    if (bits.next == bits.end) {
      bits.blocked = true;
      add_zeros(bits);
      break;
    }
    const std::uint8_t byte = *bits.next;
    if (byte == 0xff) {
      if (bits.end - bits.next < 2 || bits.next[1] != 0) {
        // A marker may have fill bytes in front. If only fill bytes follow, there is no marker. If
        // a zero follows them, they are one byte of data, which is not worth reading here.
        const std::uint8_t* at = bits.next;
        while (at != bits.end && *at == 0xff) ++at;
        bits.blocked = bits.blocked || at == bits.end || *at == 0;
        add_zeros(bits);
        break;
      }
      ++bits.next;
      passed = true;
    }
    ++bits.next;
    bits.window |= std::uint64_t{byte} << (56 - bits.count);
    bits.count += 8;
  }
  if (passed) find_plain(bits);
}

bool skip_marker(Bits& bits, std::uint8_t marker) noexcept {
  refill_slowly(bits);
  const int left = bits.count - bits.missing;
  if (left < 0 || left >= 8) return false;
  const std::uint8_t* at = bits.next;
  if (at == bits.end || *at != 0xff) return false;
  while (at != bits.end && *at == 0xff) ++at;
  if (at == bits.end || *at != marker) return false;
  begin_bits(bits, {at + 1, bits.end});
  return true;
}

bool begin_interval(Scan& scan) noexcept {
  bool good = true;
  if (scan.jump != nullptr) {
    begin_bits(scan.bits, {scan.jump, scan.bits.end});
    scan.jump = nullptr;
  } else {
    good = skip_marker(scan.bits, static_cast<std::uint8_t>(0xd0 + scan.next_restart));
    scan.next_restart = (scan.next_restart + 1) & 7;
  }
  scan.restart_left = scan.restart_interval;
  for (Plane& plane : scan.planes) plane.predictor = 0;
  return good;
}

int take_symbol(Bits& bits, const Code& code) noexcept {
  int length = 0;
  int symbol = 0;
  if (const std::uint16_t entry = code.short_codes[bits.window >> (64 - kTableBits)]; entry != 0) {
    length = entry & 255;
    symbol = entry >> 8;
  } else {
    const auto next = static_cast<std::uint32_t>(bits.window >> 48);
    length = kTableBits + 1;
    while (next >= code.limits[static_cast<std::size_t>(length)]) ++length;
    if (length > 16) return -1;
    const auto index = static_cast<std::int32_t>(next >> (16 - length)) +
                       code.offsets[static_cast<std::size_t>(length)];
    symbol = code.spec.symbols[static_cast<std::size_t>(index) & 255];
  }
  bits.window <<= length;
  bits.count -= length;
  return symbol;
}

unsigned take_run(Bits& bits, const Code& code, unsigned k, std::int16_t* block) noexcept {
  refill_slowly(bits);
  const int symbol = take_symbol(bits, code);
  if (symbol < 0) return kBadBlock;
  const int size = symbol & 15;
  const auto run = static_cast<unsigned>(symbol >> 4);
  if (size == 0) {
    if (run != 15) return kEndOfBlock;
    return k + 16 <= kBlockSize ? k + 16 : kBadBlock;
  }
  const int value = take_value(bits, size);
  if (k + run >= kBlockSize) return kBadBlock;
  if (block != nullptr) block[k + run] = static_cast<std::int16_t>(value);
  return k + run + 1;
}

void begin_row(Scan& scan, bool wanted, bool last) noexcept {
  scan.wanted = wanted;
  scan.last = last;
  scan.mcu = 0;
  scan.place = 0;
  scan.coefficient = 0;
}

bool is_good(const Scan& scan) noexcept {
  return scan.good && scan.bits.count >= scan.bits.missing;
}

bool at_end(Scan& scan) noexcept {
  constexpr std::uint8_t kEndOfImage = 0xd9;
  return skip_marker(scan.bits, kEndOfImage);
}

bool far_from_end(const Scan& scan) noexcept {
  const Bits& bits = scan.bits;
  if (bits.blocked) return false;
  if (bits.missing > 0) return true;
  const std::uint8_t* const far = bits.next + std::min(bits.end - bits.next, kReadAhead);
  for (const std::uint8_t* at = bits.next; at < far; ++at) {
    if (*at != 0xff) continue;
    const std::uint8_t* const first = at++;
    while (at != bits.end && *at == 0xff) ++at;
    if (at == bits.end) return false;
    if (*at != 0) return true;         // a marker, which the library does not pass
    if (at - first > 1) return false;  // the library skips any number of fill bytes
  }
  return bits.end - bits.next >= kReadAhead;
}

}  // namespace penstock::jpeg
