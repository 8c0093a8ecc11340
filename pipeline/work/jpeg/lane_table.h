// A Huffman table as the sixteen lanes of a vector read it.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/work/jpeg/huffman.h"

namespace penstock::jpeg {

/// Bits that index a table. Sixteen lanes' tables do not fit the nearest cache.
inline constexpr int kLaneBits = 10;
inline constexpr std::size_t kLaneTableSize = std::size_t{1} << kLaneBits;

/// By the next kLaneBits bits: one symbol whose value is still to be taken, or one or two with
/// their values and perhaps the block's end. 0: the code is longer than that, or none.
///
///     bit   0  5  all bits that it takes, values included
///           5  4  bits of the value that is still to be taken
///           9  4  zeros in front of the first coefficient
///          13  2  coefficients
///          15  1  the block ends behind them
///          16  8  the first coefficient, if no bits are to be taken
///          24  8  the second, which follows at once
using LaneTable = std::span<std::uint32_t, kLaneTableSize>;

void build_lane_table(const AcTable& table, LaneTable out) noexcept;
void build_lane_table(const DcTable& table, LaneTable out) noexcept;

}  // namespace penstock::jpeg
