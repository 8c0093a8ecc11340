// Transforms rows of blocks to samples, with a team of threads. Gives the same bits as
// pipeline/jpeg/records. The values come from a packed row (expand.h), or from decoded blocks.
#pragma once

#include <cstdint>

#include "pipeline/image/device/layout.h"
#include "pipeline/jpeg/idct_functor.h"
#include "staging/reconstruct/team.h"

namespace penstock::reconstruct {

/// The number of blocks that a team transforms at once.
inline constexpr int kBlocksAtOnce = 32;

/// The memory that a team shares.
struct TransformScratch {
  std::int32_t first[kBlocksAtOnce][2];  ///< see jpeg::plain::halve_twice
  /// Two more, so that rows lie in different memory banks.
  std::int16_t values[kBlocksAtOnce][64 + 2];
};

/// Blocks [first + skipped, first + count) of a row. They go to the scratch memory from `skipped`
/// on.
struct BlockRange {
  int first;
  int skipped;
  int count;
};

/// Runs the first pass of a block's transform, down column `x`, in place.
PENSTOCK_BOTH inline void transform_column(int side, bool flat, int x, std::int16_t* block,
                                           std::int32_t (&first)[2]) {
  namespace plain = jpeg::plain;
  std::int16_t* column = block + x;
  if (side == 2) {
    std::int32_t wide[2];
    plain::halve_twice(column, 8, wide);
    for (int y = 0; y < 2; ++y) {
      if (x == 0) first[y] = wide[y];
      column[8 * y] = plain::saturate(wide[y]);
    }
  } else if (flat) {
    const std::int16_t value = plain::flat(column[0]);
    for (int y = 0; y < side; ++y) column[8 * y] = value;
  } else if (side == 8) {
    plain::transform8<plain::kFirst8>(column, 8);
  } else {
    plain::transform4<plain::kFirst4>(column, 8, column, 8);
  }
}

/// Runs the second pass, along row `y`, and writes the samples.
PENSTOCK_BOTH inline void transform_row(int side, int y, std::int16_t* block,
                                        const std::int32_t (&first)[2], std::uint8_t* out) {
  namespace plain = jpeg::plain;
  std::int16_t* row = block + 8 * y;
  if (side == 2) return plain::finish_two(first[y], row, out);
  if (side == 8) {
    plain::transform8<plain::kSecond8>(row, 1);
  } else {
    plain::transform4<plain::kSecond4>(row, 1, row, 1);
  }
  for (int x = 0; x < side; ++x) out[x] = plain::sample(row[x]);
}

/// Transforms a row of blocks of a strip. `blocks` loads them: PackedBlocks or DecodedBlocks.
/// `target`: the strip's first sample of that row.
template <typename Team, typename Blocks>
PENSTOCK_BOTH void transform_row_of_blocks(const Team& team, const jpeg::DeviceStrip& strip,
                                           const Blocks& blocks, const std::uint16_t* quantisation,
                                           std::uint8_t* target, TransformScratch& scratch) {
  const int side = strip.side;
  blocks.begin(team);
  for (int first = blocks.first(strip); first < strip.last_block; first += kBlocksAtOnce) {
    const int count = both::least(strip.last_block - first, kBlocksAtOnce);
    const int skipped = both::clamp(strip.first_block - first, 0, count);
    const int wanted = count - skipped;
    blocks.load(team, strip, {first, skipped, count}, quantisation);
    if (side > 1)
      team.each(wanted * 8, [&](int k) {
        const int i = skipped + k / 8;
        transform_column(side, blocks.is_flat(i), k % 8, scratch.values[i], scratch.first[i]);
      });
    team.each(wanted * side, [&](int k) {
      const int i = skipped + k / side;
      const int y = k % side;
      std::uint8_t* out = target + static_cast<std::int64_t>(y) * strip.stride +
                          static_cast<std::int64_t>(first + i - strip.first_block) * side;
      if (side == 1) {
        *out = jpeg::plain::only_sample(scratch.values[i][0],
                                        static_cast<std::int16_t>(quantisation[0]));
      } else {
        transform_row(side, y, scratch.values[i], scratch.first[i], out);
      }
    });
    blocks.end(team, count);
  }
}

}  // namespace penstock::reconstruct
