// Decodes the symbols of a chunk of a JPEG's scan. Accepts the same bits as pipeline/jpeg.
#pragma once

#include <cstdint>

#include "pipeline/image/device/codes.h"
#include "pipeline/image/device/layout.h"
#include "staging/reconstruct/unstuff.h"

namespace penstock::reconstruct {

/// The number of bits that index a table of codes. Longer codes are rare, but threads that decode
/// side by side wait for each of them.
inline constexpr int kShortBits = 10;

/// A prefix code in the memory that a team shares.
struct ScanCode {
  jpeg::DeviceCode code;
  std::uint8_t symbols[256];
  /// Indexed by the next bits: the code's length and, in the upper byte, its symbol. 0: the code is
  /// longer, or the bits are not a code.
  std::uint16_t short_codes[1 << kShortBits];
};

/// A block of an MCU.
struct McuPlace {
  std::uint8_t component;
  std::uint8_t dc;  ///< numbers of its codes
  std::uint8_t ac;
  std::uint8_t x;  ///< among the component's blocks of the MCU
  std::uint8_t y;
  std::uint8_t across;  ///< and their number in each direction
  std::uint8_t down;
};

struct ScanCodes {
  ScanCode codes[4];  ///< as in DeviceScan
  McuPlace places[jpeg::kMaxBlocksInMcu];
  std::int32_t place_count;
  std::uint8_t natural_order[64];
};

/// Returns the natural position of coefficient `k` of the zigzag order. Source: ITU T.81, figure
/// A.6.
PENSTOCK_BOTH inline int natural_position(int k) {
  const int i = k < 36 ? k : 63 - k;  // the order is the same from both ends
  int diagonal = 0;
  int first = 0;
  while (first + diagonal < i) first += ++diagonal;
  const int along = i - first;
  const int y = diagonal % 2 == 0 ? diagonal - along : along;
  const int position = 8 * y + diagonal - y;
  return k < 36 ? position : 63 - position;
}

/// Fills the codes. Returns false if a table is not a prefix code.
template <typename Team>
PENSTOCK_BOTH bool prepare_codes(const Team& team, const jpeg::DevicePlan& plan, ScanCodes& out) {
  const jpeg::DeviceScan& scan = plan.scan;
  team.each(64,
            [&](int k) { out.natural_order[k] = static_cast<std::uint8_t>(natural_position(k)); });
  team.each(4 * 256, [&](int i) {
    out.codes[i / 256].symbols[i % 256] = scan.tables[i / 256].symbols[i % 256];
  });
  team.each(1, [&](int) {
    out.place_count = 0;
    for (int c = 0; c < plan.components; ++c) {
      const int across = plan.components == 1 ? 1 : plan.horizontal[c];
      const int down = plan.components == 1 ? 1 : plan.vertical[c];
      for (int i = 0; i < across * down && out.place_count < jpeg::kMaxBlocksInMcu; ++i)
        out.places[out.place_count++] = {static_cast<std::uint8_t>(c),
                                         scan.dc[c],
                                         static_cast<std::uint8_t>(2 + scan.ac[c]),
                                         static_cast<std::uint8_t>(i % across),
                                         static_cast<std::uint8_t>(i / across),
                                         static_cast<std::uint8_t>(across),
                                         static_cast<std::uint8_t>(down)};
    }
  });
  const bool bad = team.any(
      4, [&](int i) { return !jpeg::find_code(scan.tables[i], i < 2, out.codes[i].code); });
  if (bad) return false;
  team.each(4 << kShortBits, [&](int i) {
    ScanCode& code = out.codes[i >> kShortBits];
    const int index = i & ((1 << kShortBits) - 1);
    const auto bits = static_cast<std::uint32_t>(index << (jpeg::kMaxCodeBits - kShortBits));
    const int length = jpeg::length_of(code.code, bits, 1);
    const std::int32_t symbol =
        length > kShortBits ? 0
                            : static_cast<std::int32_t>(bits >> (jpeg::kMaxCodeBits - length)) +
                                  code.code.offsets[length];
    code.short_codes[index] = static_cast<std::uint16_t>(
        length > kShortBits ? 0 : length | code.symbols[symbol & 255] << 8);
  });
  return true;
}

/// A reader of the bits from a position on. Reads up to two words beyond the position.
class BitReader {
 public:
  PENSTOCK_BOTH BitReader(const ScanBytes& bytes, std::uint32_t bit)
      : bytes_(bytes), bit_(bit), high_(bytes.word(bit >> 5)), low_(bytes.word((bit >> 5) + 1)) {}

  PENSTOCK_BOTH std::uint32_t bit() const { return bit_; }
  /// Returns the next 32 bits.
  PENSTOCK_BOTH std::uint32_t window() const { return both::shift_words(high_, low_, bit_ & 31U); }
  /// REQUIRES: count <= 31.
  PENSTOCK_BOTH void drop(std::uint32_t count) {
    const std::uint32_t before = bit_ >> 5;
    bit_ += count;
    if (bit_ >> 5 == before) return;
    high_ = low_;
    low_ = bytes_.word((bit_ >> 5) + 1);
  }

 private:
  ScanBytes bytes_;
  std::uint32_t bit_;
  std::uint32_t high_;
  std::uint32_t low_;
};

/// A chunk's bits [begin, last) of a segment that ends at `end`.
struct ChunkBits {
  std::uint32_t last;
  std::uint32_t end;
};

/// The end of a chunk that was decoded from some state.
struct DecodedChunk {
  jpeg::DeviceState end;
  std::uint32_t blocks;
  bool bad;
};

/// Decodes all symbols that begin in a chunk and fit its segment, and tells `sink` of them:
/// `begin_block(place, difference of DCs)`, `put(coefficient, value)` and `end_block(is the MCU's
/// last)`. After bits that are not allowed it continues somehow, because the state that it was
/// given may be wrong. Each turn of the loop takes at least one bit.
template <typename Sink>
PENSTOCK_BOTH DecodedChunk decode_chunk(const ScanCodes& in, const ScanBytes& bytes,
                                        const jpeg::DeviceState& from, const ChunkBits& range,
                                        Sink& sink) {
  BitReader reader(bytes, from.bit);
  std::uint32_t place = from.place;
  std::uint32_t k = from.coefficient;
  std::uint32_t blocks = 0;
  bool bad = false;
  const auto places = static_cast<std::uint32_t>(in.place_count);
  McuPlace of = in.places[place];
  while (reader.bit() < range.last) {
    const std::uint32_t window = reader.window();
    const std::uint32_t left = range.end - reader.bit();
    const ScanCode& code = in.codes[k == 0 ? of.dc : of.ac];
    const std::uint32_t entry = code.short_codes[window >> (32 - kShortBits)];
    std::uint32_t length = entry & 255;
    std::uint32_t symbol = entry >> 8;
    if (length == 0) {
      const std::uint32_t bits = window >> (32 - jpeg::kMaxCodeBits);
      length = static_cast<std::uint32_t>(jpeg::length_of(code.code, bits, kShortBits + 1));
      if (length > jpeg::kMaxCodeBits) {
        // A code's end may lie behind the segment. No code is all ones, so padding never ends one.
        if (left < jpeg::kMaxCodeBits) break;
        bad = true;
        reader.drop(1);
        continue;
      }
      symbol = code.symbols[static_cast<std::uint32_t>(
                                static_cast<std::int32_t>(bits >> (jpeg::kMaxCodeBits - length)) +
                                code.code.offsets[length]) &
                            255U];
    }
    const std::uint32_t size = symbol & 15;
    if (length + size > left) break;
    const std::uint32_t rest = window << length;
    const auto raw = static_cast<std::int32_t>(rest >> 1 >> (31 - size));
    const auto negative = static_cast<std::int32_t>(~rest >> 31);
    const std::int32_t value = raw - (negative << size) + negative;
    reader.drop(length + size);
    if (k == 0) {
      sink.begin_block(of, value);
      k = 1;
    } else {
      const std::uint32_t run = symbol >> 4;
      if (size > 0) {
        k += run;
        bad = bad || k > 63;
        if (k <= 63) sink.put(k, value);
        ++k;
      } else if (run == 15) {
        k += 16;
        bad = bad || k > 64;
      } else {
        k = 64;
      }
    }
    if (k < 64) continue;
    k = 0;
    ++blocks;
    place = place + 1 == places ? 0 : place + 1;
    of = in.places[place];
    sink.end_block(place == 0);
  }
  return {{reader.bit(), static_cast<std::uint16_t>(place), static_cast<std::uint16_t>(k)},
          blocks,
          bad};
}

}  // namespace penstock::reconstruct
