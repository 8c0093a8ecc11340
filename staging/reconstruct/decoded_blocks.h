// Blocks whose coefficients are in the working memory, as the values of a transform.
#pragma once

#include <cstdint>

#include "staging/reconstruct/transform.h"

namespace penstock::reconstruct {

/// The memory that a team shares.
struct DecodedScratch : TransformScratch {
  std::uint8_t below[kBlocksAtOnce][8];  ///< whether a row has values, and is not the first one
};

/// The blocks [strip.first_block, strip.last_block) of a row.
struct DecodedBlocks {
  const std::int16_t* values = nullptr;  ///< of the first one
  DecodedScratch& scratch;

  template <typename Team>
  PENSTOCK_BOTH void begin(const Team& /*team*/) const {}
  PENSTOCK_BOTH std::int32_t first(const jpeg::DeviceStrip& strip) const {
    return strip.first_block;
  }
  template <typename Team>
  PENSTOCK_BOTH void load(const Team& team, const jpeg::DeviceStrip& strip, BlockRange range,
                          const std::uint16_t* quantisation) const {
    struct alignas(16) Row {
      std::int16_t values[8];
    };
    const auto* const rows = reinterpret_cast<const Row*>(
        values + std::int64_t{jpeg::kBlockSize} * (range.first - strip.first_block));
    team.each(range.count * 8, [&](int k) {
      const int y = k % 8;
      const Row row = rows[k];
      std::int16_t* const out = scratch.values[k / 8] + 8 * y;
      int some = 0;
      for (int x = 0; x < 8; ++x) {
        some |= row.values[x];
        out[x] = strip.side == 1
                     ? row.values[x]
                     : jpeg::plain::wrap(row.values[x] *
                                         static_cast<std::int16_t>(quantisation[8 * y + x]));
      }
      const bool counts = y > 0 && !(strip.side == 4 && y == 4);
      scratch.below[k / 8][y] = some != 0 && counts ? 1 : 0;
    });
  }
  PENSTOCK_BOTH bool is_flat(int i) const {
    int below = 0;
    for (int y = 0; y < 8; ++y) below |= scratch.below[i][y];
    return below == 0;
  }
  template <typename Team>
  PENSTOCK_BOTH void end(const Team& /*team*/, int /*count*/) const {}
};

}  // namespace penstock::reconstruct
