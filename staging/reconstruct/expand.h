// Expands a packed row of blocks with a team of threads. Gives the same values as
// pipeline/jpeg/records. Never reads or writes outside of its buffers, whatever the bytes are.
#pragma once

#include <cstdint>

#include "staging/reconstruct/transform.h"

namespace penstock::reconstruct {

/// The memory that a team shares. The first four arrays are running sums over the blocks: they say
/// where each block's part of a stream begins. The first entry is the sum of all blocks before
/// these.
struct ExpandScratch : TransformScratch {
  std::uint32_t masks[kBlocksAtOnce + 1];
  std::uint32_t nibbles[kBlocksAtOnce + 1];
  std::uint32_t bytes[kBlocksAtOnce + 1];
  std::uint32_t words[kBlocksAtOnce + 1];
  std::uint8_t flat[kBlocksAtOnce];  ///< true if rows below the first are all zeros
};

/// A stream of a packed row. Reads beyond its end return 0.
struct Bytes {
  const std::uint8_t* data = nullptr;
  std::uint32_t size = 0;

  PENSTOCK_BOTH std::uint32_t operator[](std::uint32_t at) const {
    return at < size ? data[at] : 0;
  }
};

struct PackedStreams {
  Bytes dcs;
  Bytes presences;
  Bytes masks;
  Bytes nibbles;
  Bytes bytes;
  Bytes words;
};

/// Returns the streams of a part with `blocks` blocks; empty ones if the part is malformed.
PENSTOCK_BOTH inline PackedStreams open_streams(Bytes part, std::uint32_t blocks) {
  constexpr std::uint32_t kHead = 12;
  PackedStreams streams;
  if (part.size < kHead + 3 * blocks) return streams;
  const std::uint8_t* at = part.data + kHead;
  std::uint32_t left = part.size - kHead;
  const auto take = [&](std::uint32_t size) {
    const Bytes taken{at, size};
    at += size;
    left -= size;
    return taken;
  };
  const auto size_at = [&](std::uint32_t i) {
    return part[i] | part[i + 1] << 8 | part[i + 2] << 16 | part[i + 3] << 24;
  };
  const std::uint32_t masks = size_at(0);
  const std::uint32_t nibbles = size_at(4);
  const std::uint32_t bytes = size_at(8);
  const std::uint32_t room = left - 3 * blocks;
  if (masks > room || nibbles > room - masks || bytes > room - masks - nibbles) return streams;
  streams.dcs = take(2 * blocks);
  streams.presences = take(blocks);
  streams.masks = take(masks);
  streams.nibbles = take(nibbles);
  streams.bytes = take(bytes);
  streams.words = take(left);
  return streams;
}

PENSTOCK_BOTH inline std::uint32_t nibble_at(const Bytes& nibbles, std::uint32_t byte,
                                             std::uint32_t i) {
  return nibbles[byte + i / 2] >> (i % 2 * 4) & 15U;
}

/// The places where a block's part of each stream begins, and the bits that say which of its rows
/// have values.
struct BlockStart {
  std::uint32_t presence = 0;
  std::uint32_t masks = 0;
  std::uint32_t nibbles = 0;
  std::uint32_t bytes = 0;
  std::uint32_t words = 0;
};
/// Expands the values of a block except the DC, in natural order. Returns whether any row that
/// counts for `flat` has values.
PENSTOCK_BOTH inline bool expand_block(const PackedStreams& in, BlockStart at, bool without_fourth,
                                       std::int16_t* out) {
  for (int i = 0; i < 64; ++i) out[i] = 0;
  bool below = false;
  std::uint32_t taken = 0;
  for (int y = 0; y < 8; ++y) {
    if ((at.presence >> y & 1U) == 0) continue;
    const std::uint32_t mask = in.masks[at.masks++];
    for (int x = 0; x < 8; ++x) {
      if ((mask >> x & 1U) == 0) continue;
      const std::uint32_t nibble = nibble_at(in.nibbles, at.nibbles, taken++);
      int value = static_cast<int>(nibble ^ 8U) - 8;
      if (nibble == 0) {
        value = static_cast<std::int8_t>(in.bytes[at.bytes++]);
        if (value == -128) {
          value = static_cast<std::int16_t>(in.words[at.words] | in.words[at.words + 1] << 8);
          at.words += 2;
        }
      }
      out[8 * y + x] = static_cast<std::int16_t>(value);
      below = below || (value != 0 && y > 0 && !(without_fourth && y == 4));
    }
  }
  return below;
}

/// Turns sizes into places: `sums[i + 1]` says what block i takes of a stream, and then `sums[i]`
/// says where its part begins.
template <typename Team>
PENSTOCK_BOTH void add_up(const Team& team, std::uint32_t* sums, int count) {
  team.each(1, [&](int) {
    for (int i = 0; i < count; ++i) sums[i + 1] += sums[i];
  });
}

/// Computes where the streams of these blocks begin, in the scratch memory.
template <typename Team>
PENSTOCK_BOTH void find_blocks(const Team& team, const PackedStreams& in, int first, int count,
                               ExpandScratch& scratch) {
  const auto presence_of = [&](int i) {
    return in.presences[static_cast<std::uint32_t>(first + i)];
  };
  team.each(count, [&](int i) {
    scratch.masks[i + 1] = static_cast<std::uint32_t>(both::count_bits(presence_of(i)));
  });
  add_up(team, scratch.masks, count);
  const auto values_of = [&](int i) {
    std::uint32_t values = 0;
    for (std::uint32_t at = scratch.masks[i]; at < scratch.masks[i + 1]; ++at)
      values += static_cast<std::uint32_t>(both::count_bits(in.masks[at]));
    return values;
  };
  team.each(count, [&](int i) { scratch.nibbles[i + 1] = (values_of(i) + 1) / 2; });
  add_up(team, scratch.nibbles, count);
  team.each(count, [&](int i) {
    const std::uint32_t values = values_of(i);
    std::uint32_t zeros = 0;
    for (std::uint32_t v = 0; v < values; ++v)
      zeros += nibble_at(in.nibbles, scratch.nibbles[i], v) == 0 ? 1 : 0;
    scratch.bytes[i + 1] = zeros;
  });
  add_up(team, scratch.bytes, count);
  team.each(count, [&](int i) {
    std::uint32_t words = 0;
    for (std::uint32_t at = scratch.bytes[i]; at < scratch.bytes[i + 1]; ++at)
      words += in.bytes[at] == 0x80 ? 2 : 0;
    scratch.words[i + 1] = words;
  });
  add_up(team, scratch.words, count);
}

/// The blocks of a packed row, in order.
struct PackedBlocks {
  PackedStreams in;
  ExpandScratch& scratch;

  template <typename Team>
  PENSTOCK_BOTH void begin(const Team& team) const {
    team.each(1, [&](int) {
      scratch.masks[0] = scratch.nibbles[0] = scratch.bytes[0] = scratch.words[0] = 0;
    });
  }
  /// The first block that has to be expanded: where one begins depends on all before it.
  PENSTOCK_BOTH std::int32_t first(const jpeg::DeviceStrip& /*strip*/) const { return 0; }
  /// Loads blocks [first + skipped, first + count), multiplied by `quantisation`.
  template <typename Team>
  PENSTOCK_BOTH void load(const Team& team, const jpeg::DeviceStrip& strip, BlockRange range,
                          const std::uint16_t* quantisation) const {
    find_blocks(team, in, range.first, range.count, scratch);
    team.each(range.count - range.skipped, [&](int k) {
      const int i = range.skipped + k;
      const auto block = static_cast<std::uint32_t>(range.first + i);
      std::int16_t* values = scratch.values[i];
      const BlockStart at{in.presences[block], scratch.masks[i], scratch.nibbles[i],
                          scratch.bytes[i], scratch.words[i]};
      scratch.flat[i] = expand_block(in, at, strip.side == 4, values) ? 0 : 1;
      values[0] = static_cast<std::int16_t>(in.dcs[2 * block] | in.dcs[2 * block + 1] << 8);
      if (strip.side > 1)
        for (int k2 = 0; k2 < 64; ++k2)
          values[k2] = jpeg::plain::wrap(values[k2] * static_cast<std::int16_t>(quantisation[k2]));
    });
  }
  PENSTOCK_BOTH bool is_flat(int i) const { return scratch.flat[i] != 0; }
  template <typename Team>
  PENSTOCK_BOTH void end(const Team& team, int count) const {
    team.each(1, [&](int) {
      scratch.masks[0] = scratch.masks[count];
      scratch.nibbles[0] = scratch.nibbles[count];
      scratch.bytes[0] = scratch.bytes[count];
      scratch.words[0] = scratch.words[count];
    });
  }
};

}  // namespace penstock::reconstruct
