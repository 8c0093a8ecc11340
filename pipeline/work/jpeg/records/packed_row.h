// A row of blocks as coefficient records store it, and its way back to coefficients and samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/work/jpeg/scan.h"

namespace penstock::jpeg {

/// Appends a row of blocks (natural order, `count` of 64) in packed form.
void pack_row(std::span<const std::int16_t> blocks, std::vector<std::byte>& out);

/// The streams of a packed row. Behind each end kRecordSlack bytes may be read.
struct PackedRow {
  const std::uint8_t* dcs = nullptr;        ///< i16 of each block
  const std::uint8_t* presences = nullptr;  ///< of each block: its rows that have a mask
  const std::uint8_t* masks = nullptr;
  const std::uint8_t* masks_end = nullptr;
  const std::uint8_t* nibbles = nullptr;
  const std::uint8_t* nibbles_end = nullptr;
  const std::uint8_t* bytes = nullptr;
  const std::uint8_t* bytes_end = nullptr;
  const std::uint8_t* words = nullptr;
  const std::uint8_t* words_end = nullptr;
  bool valid = false;  ///< the streams' lengths fit the part
};
/// The streams of a part that holds `count` blocks.
PackedRow open_row(std::span<const std::byte> part, int count) noexcept;

/// Transforms blocks [plane.first_block, plane.last_block) to the row of blocks of samples at
/// `target`; of each of its rows up to 3 x kBlockSide samples behind them may be overwritten.
/// False, and some samples are undefined, if the streams end too soon. Reads nothing beyond their
/// slack whatever the bytes are.
bool transform_row(const PackedRow& row, Plane& plane, std::uint8_t* target) noexcept;

/// All blocks of a row in natural order, by plain code. False if the streams are not consumed to
/// their ends, no more and no less.
bool unpack_row(const PackedRow& row, std::span<std::int16_t> blocks) noexcept;

}  // namespace penstock::jpeg
