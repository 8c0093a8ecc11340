// Decodes a JPEG's scan to coefficients, with a team of threads. Each member starts somewhere in
// the middle, from a state that it assumes. Most often it meets the right state before the next
// member's start (self-synchronisation); the others decode again. Source: Weißenberger and Schmidt,
// "Accelerating JPEG Decompression on GPUs", arXiv 2111.09219. Never accesses memory outside of the
// layout, and accepts no scan that pipeline/jpeg leaves to libjpeg-turbo.
#pragma once

#include <cstdint>

#include "pipeline/image/device/layout.h"
#include "staging/reconstruct/symbols.h"

namespace penstock::reconstruct {

/// The blocks of a component that are kept.
struct CoefficientPlane {
  std::int16_t* values;
  std::int32_t first_row;
  std::int32_t last_row;  ///< first_row: the component is not needed
  std::int32_t first_block;
  std::int32_t last_block;
};

/// The memory that a team shares.
struct EntropyScratch {
  ScanCodes codes;
  GroupSums sums;
  CoefficientPlane planes[3];
};

/// A scan and its working memory.
struct ScanWork {
  const jpeg::DevicePlan* plan = nullptr;
  const jpeg::DeviceLayout* layout = nullptr;
  std::uint8_t* work = nullptr;
  ScanBytes bytes;
  jpeg::DeviceSegment* segments = nullptr;
  jpeg::DeviceChunk* chunks = nullptr;
};
PENSTOCK_BOTH inline ScanWork scan_work_of(const jpeg::DevicePlan* plan,
                                           const jpeg::DeviceLayout* layout, std::uint8_t* work) {
  const jpeg::DeviceScanLayout& scan = layout->scan;
  return {plan,
          layout,
          work,
          {work + scan.bytes},
          reinterpret_cast<jpeg::DeviceSegment*>(work + scan.first_segment),
          reinterpret_cast<jpeg::DeviceChunk*>(work + scan.first_chunk)};
}

template <typename Team>
PENSTOCK_BOTH void prepare_planes(const Team& team, const ScanWork& scan, EntropyScratch& scratch) {
  team.each(3, [&](int c) {
    const jpeg::DeviceStrip& strip = scan.layout->strips[c];
    scratch.planes[c] = {reinterpret_cast<std::int16_t*>(scan.work + strip.coefficients),
                         strip.first_row, strip.needed != 0 ? strip.last_row : strip.first_row,
                         strip.first_block, strip.last_block};
  });
}

// Step 1: each segment is divided into chunks.

PENSTOCK_BOTH inline std::uint32_t chunks_of(const ScanWork& scan, std::uint32_t segment) {
  const std::uint32_t bits = 8 * (scan.segments[segment + 1].byte - scan.segments[segment].byte);
  return both::divide_up(bits, static_cast<std::uint32_t>(scan.plan->scan.chunk_bits));
}

/// A block has at most 64 symbols of 16 bits with values of 15.
inline constexpr std::uint32_t kMostBlockBytes = 64 * 31 / 8;

/// True if the segment may be its blocks, and no more than a byte of padding. Otherwise bytes that
/// never synchronise might keep a team busy for long.
PENSTOCK_BOTH inline bool has_possible_size(const ScanWork& scan, std::uint32_t segment) {
  const jpeg::DeviceScanLayout& layout = scan.layout->scan;
  const auto interval = static_cast<std::uint32_t>(scan.plan->scan.restart_interval);
  const bool last = segment + 1 == static_cast<std::uint32_t>(layout.segments);
  const std::uint32_t mcus =
      last ? static_cast<std::uint32_t>(layout.mcus) - segment * interval : interval;
  const std::uint32_t blocks = mcus * static_cast<std::uint32_t>(layout.blocks_in_mcu);
  const std::uint32_t bytes = scan.segments[segment + 1].byte - scan.segments[segment].byte;
  return bytes > 0 && both::divide_up(bytes - 1, kMostBlockBytes) <= blocks;
}

/// Returns the number of all chunks; 0 if a segment can't be one.
template <typename Team>
PENSTOCK_BOTH std::uint32_t divide_scan(const Team& team, const ScanWork& scan, GroupSums& sums) {
  const auto count = static_cast<std::uint32_t>(scan.layout->scan.segments);
  team.each(kGroups, [&](int group) {
    const GroupRange range = range_of(group, count);
    std::uint32_t chunks = 0;
    std::uint32_t wrong = 0;
    for (std::uint32_t s = range.begin; s < range.end; ++s) {
      chunks += chunks_of(scan, s);
      wrong += has_possible_size(scan, s) ? 0 : 1;
    }
    sums.of[0][group + 1] = chunks;
    sums.of[1][group + 1] = wrong;
    sums.of[2][group + 1] = sums.of[3][group + 1] = 0;
  });
  add_up_groups(team, sums);
  const std::uint32_t all = sums.of[0][kGroups];
  if (sums.of[1][kGroups] != 0 || all > static_cast<std::uint32_t>(scan.layout->scan.most_chunks))
    return 0;
  team.each(kGroups, [&](int group) {
    const GroupRange range = range_of(group, count);
    std::uint32_t at = sums.of[0][group];
    for (std::uint32_t s = range.begin; s < range.end; ++s) {
      scan.segments[s].chunk = at;
      at += chunks_of(scan, s);
    }
    if (group == 0) scan.segments[count].chunk = all;
  });
  return all;
}

PENSTOCK_BOTH inline std::uint32_t segment_of(const ScanWork& scan, std::uint32_t chunk) {
  std::uint32_t low = 0;
  auto high = static_cast<std::uint32_t>(scan.layout->scan.segments);
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (scan.segments[middle].chunk <= chunk) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

PENSTOCK_BOTH inline std::uint32_t first_bit_of(const ScanWork& scan, std::uint32_t i) {
  const jpeg::DeviceSegment& segment = scan.segments[scan.chunks[i].segment];
  return 8 * segment.byte +
         (i - segment.chunk) * static_cast<std::uint32_t>(scan.plan->scan.chunk_bits);
}

PENSTOCK_BOTH inline ChunkBits bits_of(const ScanWork& scan, std::uint32_t i) {
  const std::uint32_t end = 8 * scan.segments[scan.chunks[i].segment + 1].byte;
  const auto size = static_cast<std::uint32_t>(scan.plan->scan.chunk_bits);
  return {both::least(first_bit_of(scan, i) + size, end), end};
}

// Step 2: each chunk is decoded, until all begin where the one before it ends.

/// Adds up differences of DCs. They wrap, as on the host.
struct DcSums {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  std::uint32_t third = 0;

  PENSTOCK_BOTH void begin_block(const McuPlace& of, std::int32_t difference) {
    const auto value = static_cast<std::uint32_t>(difference);
    first += of.component == 0 ? value : 0;
    second += of.component == 1 ? value : 0;
    third += of.component == 2 ? value : 0;
  }
  PENSTOCK_BOTH void put(std::uint32_t /*k*/, std::int32_t /*value*/) const {}
  PENSTOCK_BOTH void end_block(bool /*last*/) const {}
};

PENSTOCK_BOTH inline void decode_from_begin(const ScanWork& scan, const ScanCodes& codes,
                                            std::uint32_t i) {
  jpeg::DeviceChunk& chunk = scan.chunks[i];
  DcSums sums;
  const DecodedChunk decoded = decode_chunk(codes, scan.bytes, chunk.begin, bits_of(scan, i), sums);
  chunk.end = decoded.end;
  chunk.blocks = decoded.blocks;
  chunk.dcs[0] = static_cast<std::uint16_t>(sums.first);
  chunk.dcs[1] = static_cast<std::uint16_t>(sums.second);
  chunk.dcs[2] = static_cast<std::uint16_t>(sums.third);
  chunk.bad = decoded.bad ? 1 : 0;
  chunk.outdated = 0;
}

/// The first round: all assume that an MCU begins at their first bit.
template <typename Team>
PENSTOCK_BOTH void decode_assumed(const Team& team, const ScanWork& scan, const ScanCodes& codes,
                                  std::uint32_t count) {
  team.each(static_cast<int>(count), [&](int at) {
    const auto i = static_cast<std::uint32_t>(at);
    scan.chunks[i].segment = segment_of(scan, i);
    scan.chunks[i].begin = {first_bit_of(scan, i), 0, 0};
    decode_from_begin(scan, codes, i);
  });
}

/// Lets chunks begin where the one before them ends now. Returns whether any begin has changed.
template <typename Team>
PENSTOCK_BOTH bool pass_states_on(const Team& team, const ScanWork& scan, std::uint32_t count) {
  return team.any(static_cast<int>(count) - 1, [&](int at) {
    const jpeg::DeviceChunk& before = scan.chunks[at];
    jpeg::DeviceChunk& chunk = scan.chunks[at + 1];
    const bool same = chunk.begin.bit == before.end.bit && chunk.begin.place == before.end.place &&
                      chunk.begin.coefficient == before.end.coefficient;
    if (chunk.segment != before.segment || same) return false;
    chunk.begin = before.end;
    chunk.outdated = 1;
    return true;
  });
}

/// The other rounds. Returns false if they do not suffice.
template <typename Team>
PENSTOCK_BOTH bool synchronise(const Team& team, const ScanWork& scan, const ScanCodes& codes,
                               std::uint32_t count) {
  for (std::int32_t round = 0; pass_states_on(team, scan, count); ++round) {
    if (round == scan.layout->scan.most_rounds) return false;
    team.each(static_cast<int>(count), [&](int i) {
      if (scan.chunks[i].outdated != 0)
        decode_from_begin(scan, codes, static_cast<std::uint32_t>(i));
    });
  }
  return true;
}

// Step 3: running sums, so that each chunk knows its first block, and the DCs before it.

template <typename Team>
PENSTOCK_BOTH void place_chunks(const Team& team, const ScanWork& scan, std::uint32_t count,
                                GroupSums& sums) {
  team.each(kGroups, [&](int group) {
    const GroupRange range = range_of(group, count);
    std::uint32_t blocks = 0;
    std::uint32_t first = 0;
    std::uint32_t second = 0;
    std::uint32_t third = 0;
    for (std::uint32_t i = range.begin; i < range.end; ++i) {
      const jpeg::DeviceChunk& chunk = scan.chunks[i];
      blocks += chunk.blocks;
      first += chunk.dcs[0];
      second += chunk.dcs[1];
      third += chunk.dcs[2];
    }
    sums.of[0][group + 1] = blocks;
    sums.of[1][group + 1] = first;
    sums.of[2][group + 1] = second;
    sums.of[3][group + 1] = third;
  });
  add_up_groups(team, sums);
  team.each(kGroups, [&](int group) {
    const GroupRange range = range_of(group, count);
    std::uint32_t blocks = sums.of[0][group];
    std::uint32_t first = sums.of[1][group];
    std::uint32_t second = sums.of[2][group];
    std::uint32_t third = sums.of[3][group];
    for (std::uint32_t i = range.begin; i < range.end; ++i) {
      jpeg::DeviceChunk& chunk = scan.chunks[i];
      const jpeg::DeviceChunk own = chunk;
      chunk.blocks = blocks;
      chunk.dcs[0] = static_cast<std::uint16_t>(first);
      chunk.dcs[1] = static_cast<std::uint16_t>(second);
      chunk.dcs[2] = static_cast<std::uint16_t>(third);
      blocks += own.blocks;
      first += own.dcs[0];
      second += own.dcs[1];
      third += own.dcs[2];
    }
  });
}

/// Returns the number of blocks up to the chunk's end.
PENSTOCK_BOTH inline std::uint32_t blocks_after(const ScanWork& scan, std::uint32_t i,
                                                std::uint32_t count, const GroupSums& sums) {
  return i + 1 < count ? scan.chunks[i + 1].blocks : sums.of[0][kGroups];
}

/// True if the chunk has no invalid bits and, if it is its segment's last, ends as it should.
PENSTOCK_BOTH inline bool is_sound(const ScanWork& scan, std::uint32_t i, std::uint32_t count,
                                   const GroupSums& sums) {
  const jpeg::DeviceScanLayout& layout = scan.layout->scan;
  const jpeg::DeviceChunk& chunk = scan.chunks[i];
  if (chunk.bad != 0) return false;
  const auto next = static_cast<std::int32_t>(chunk.segment + 1);
  const jpeg::DeviceSegment& end = scan.segments[next];
  if (i + 1 != end.chunk) return true;
  const std::int32_t mcus =
      next == layout.segments ? layout.mcus : next * scan.plan->scan.restart_interval;
  return chunk.end.place == 0 && chunk.end.coefficient == 0 && 8 * end.byte - chunk.end.bit < 8 &&
         blocks_after(scan, i, count, sums) ==
             static_cast<std::uint32_t>(mcus) * static_cast<std::uint32_t>(layout.blocks_in_mcu);
}

// Step 4: all chunks are decoded again, to coefficients.

class BlockWriter {
 public:
  /// For the blocks from MCU (x, y) on.
  PENSTOCK_BOTH BlockWriter(const EntropyScratch& scratch, std::int32_t mcus_across, DcSums before,
                            std::int32_t x, std::int32_t y)
      : scratch_(scratch), mcus_across_(mcus_across), dcs_(before), x_(x), y_(y) {}

  /// Chooses where the values of this block go.
  PENSTOCK_BOTH void aim(const McuPlace& of) {
    const CoefficientPlane& plane = scratch_.planes[of.component];
    const std::int32_t row = y_ * of.down + of.y;
    const std::int32_t block = x_ * of.across + of.x;
    const bool needed = row >= plane.first_row && row < plane.last_row &&
                        block >= plane.first_block && block < plane.last_block;
    const std::int64_t at =
        std::int64_t{row - plane.first_row} * (plane.last_block - plane.first_block) + block -
        plane.first_block;
    target_ = needed ? plane.values + jpeg::kBlockSize * at : nullptr;
  }
  PENSTOCK_BOTH void begin_block(const McuPlace& of, std::int32_t difference) {
    dcs_.begin_block(of, difference);
    aim(of);
    const std::uint32_t dc = of.component == 0   ? dcs_.first
                             : of.component == 1 ? dcs_.second
                                                 : dcs_.third;
    if (target_ != nullptr) target_[0] = static_cast<std::int16_t>(static_cast<std::uint16_t>(dc));
  }
  PENSTOCK_BOTH void put(std::uint32_t k, std::int32_t value) const {
    if (target_ != nullptr)
      target_[scratch_.codes.natural_order[k]] = static_cast<std::int16_t>(value);
  }
  PENSTOCK_BOTH void end_block(bool last) {
    x_ += last ? 1 : 0;
    if (x_ < mcus_across_) return;
    x_ = 0;
    ++y_;
  }

 private:
  const EntropyScratch& scratch_;
  std::int32_t mcus_across_;
  DcSums dcs_;
  std::int32_t x_;  // of the MCU
  std::int32_t y_;
  std::int16_t* target_ = nullptr;  // null: the block is not needed
};

template <typename Team>
PENSTOCK_BOTH void clear_coefficients(const Team& team, const ScanWork& scan) {
  auto* const words = reinterpret_cast<std::uint64_t*>(scan.work);
  team.each(static_cast<int>(scan.layout->scan.coefficients / 8), [&](int i) { words[i] = 0; });
}

PENSTOCK_BOTH inline void write_chunk(const ScanWork& scan, const EntropyScratch& scratch,
                                      std::uint32_t i, std::uint32_t count) {
  const jpeg::DeviceScanLayout& layout = scan.layout->scan;
  const jpeg::DeviceChunk& chunk = scan.chunks[i];
  const auto in_mcu = static_cast<std::uint32_t>(layout.blocks_in_mcu);
  const auto across = static_cast<std::uint32_t>(layout.mcus_across);
  const std::uint32_t mcu = chunk.blocks / in_mcu;
  const auto y = static_cast<std::int32_t>(mcu / across);
  const std::uint32_t after = blocks_after(scan, i, count, scratch.sums) / in_mcu;
  if (y >= layout.last_row || static_cast<std::int32_t>(after / across) < layout.first_row) return;
  const jpeg::DeviceChunk& first = scan.chunks[scan.segments[chunk.segment].chunk];
  const auto before = [&](int c) {
    return static_cast<std::uint32_t>(chunk.dcs[c]) - first.dcs[c];
  };
  BlockWriter writer(scratch, layout.mcus_across, {before(0), before(1), before(2)},
                     static_cast<std::int32_t>(mcu % across), y);
  if (chunk.begin.coefficient != 0) writer.aim(scratch.codes.places[chunk.begin.place]);
  decode_chunk(scratch.codes, scan.bytes, chunk.begin, bits_of(scan, i), writer);
}

/// Decodes the scan. Returns false if the host has to.
template <typename Team>
PENSTOCK_BOTH bool decode_scan(const Team& team, const ScanWork& scan, const Bytes& packed,
                               EntropyScratch& scratch) {
  if (packed.size != scan.plan->scan.bytes) return false;
  if (!prepare_codes(team, *scan.plan, scratch.codes)) return false;
  prepare_planes(team, scan, scratch);
  if (!unstuff(team, packed, scan.bytes, scan.segments, scan.layout->scan.segments, scratch.sums))
    return false;
  const std::uint32_t count = divide_scan(team, scan, scratch.sums);
  if (count == 0) return false;
  decode_assumed(team, scan, scratch.codes, count);
  if (!synchronise(team, scan, scratch.codes, count)) return false;
  place_chunks(team, scan, count, scratch.sums);
  const bool damaged = team.any(static_cast<int>(count), [&](int i) {
    return !is_sound(scan, static_cast<std::uint32_t>(i), count, scratch.sums);
  });
  if (damaged) return false;
  clear_coefficients(team, scan);
  team.each(static_cast<int>(count),
            [&](int i) { write_chunk(scan, scratch, static_cast<std::uint32_t>(i), count); });
  return true;
}

}  // namespace penstock::reconstruct
