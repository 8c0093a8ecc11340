// A Huffman table as the sixteen lanes of a vector read it.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/jpeg/huffman.h"

namespace penstock::jpeg {

/// The number of bits that index a table. The tables of sixteen lanes do not fit the first-level
/// cache.
inline constexpr int kLaneBits = 10;
inline constexpr std::size_t kLaneTableSize = std::size_t{1} << kLaneBits;

/// A table indexed by the next kLaneBits bits. An entry is one symbol whose value must still be
/// read, or one or two symbols with their values and perhaps the block's end. It is 0 if the code
/// is longer, or if the bits are not a code.
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
