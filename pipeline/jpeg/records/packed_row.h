// A row of blocks as coefficient records store it, and its conversion to coefficients and samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/jpeg/scan.h"

namespace penstock::jpeg {

/// Appends a row of blocks, 64 coefficients each in natural order, in packed form.
void pack_row(std::span<const std::int16_t> blocks, std::vector<std::byte>& out);

/// The streams of a packed row. kRecordSlack bytes behind the end of each may be read.
struct PackedRow {
  const std::uint8_t* dcs = nullptr;        ///< one i16 for each block
  const std::uint8_t* presences = nullptr;  ///< for each block: its rows that have a mask
  const std::uint8_t* masks = nullptr;
  const std::uint8_t* masks_end = nullptr;
  const std::uint8_t* nibbles = nullptr;
  const std::uint8_t* nibbles_end = nullptr;
  const std::uint8_t* bytes = nullptr;
  const std::uint8_t* bytes_end = nullptr;
  const std::uint8_t* words = nullptr;
  const std::uint8_t* words_end = nullptr;
  bool valid = false;  ///< the lengths of the streams fit the part
};
/// Returns the streams of a part that holds `count` blocks.
PackedRow open_row(std::span<const std::byte> part, int count) noexcept;

/// Transforms blocks [plane.first_block, plane.last_block) to the row of blocks of samples at
/// `target`. Up to 3 x kBlockSide samples behind each of its rows may be overwritten. Returns false
/// if the streams end too soon; some samples are undefined then. Reads nothing beyond the slack of
/// the streams, whatever the bytes are.
bool transform_row(const PackedRow& row, Plane& plane, std::uint8_t* target) noexcept;

/// Unpacks all blocks of a row in natural order, by plain code. Returns false unless the streams
/// are consumed exactly to their ends.
bool unpack_row(const PackedRow& row, std::span<std::int16_t> blocks) noexcept;

}  // namespace penstock::jpeg
