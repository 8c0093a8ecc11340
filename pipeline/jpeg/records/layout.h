// The format of an image record: one JPEG in a form that decodes faster, to the same pixels.
// docs/records.md describes it byte by byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <penstock/error.h>

#include "pipeline/jpeg/header.h"

namespace penstock::jpeg {

enum class RecordKind : std::uint8_t {
  coefficients = 1,  ///< the payload is rows of blocks, packed
  indexed = 2        ///< the payload is a JPEG file with restart markers
};
inline constexpr std::size_t kRecordKinds = 2;
/// Returns "coefficients" or "indexed".
const char* name_of(RecordKind kind) noexcept;

inline constexpr std::uint8_t kRecordVersion = 1;
/// The version of records that hold a tail. Readers that know no tails refuse it.
inline constexpr std::uint8_t kRecordWithTail = 2;
inline constexpr std::array<std::uint8_t, 4> kRecordMagic = {0x89, 'P', 'N', 'R'};
/// The bytes in front of tables and index.
inline constexpr std::size_t kRecordHead = 56;
/// In records with a tail, its size and CRC32C follow these bytes.
inline constexpr std::size_t kRecordTailHead = 8;
/// The number of zeros behind payload and metadata. They let kernels read whole vectors.
inline constexpr std::size_t kRecordSlack = 256;

/// A row of blocks, or a group of restart intervals: its offset in the payload and the CRC32C of
/// its bytes. The bytes end where those of the next part begin.
struct RecordPart {
  std::uint32_t offset = 0;
  std::uint32_t crc = 0;
};

/// A record whose head was checked. The spans are views of the record.
struct Record {
  RecordKind kind = RecordKind::coefficients;
  int orientation = 1;  ///< EXIF, 1…8
  /// Of coefficients, all that a Picture needs. Otherwise only sizes and color.
  Header header;
  int interval = 0;  ///< of an indexed record: MCUs in a restart interval
  std::size_t part_count = 0;
  const std::byte* parts = nullptr;
  std::span<const std::byte> payload;
  std::span<const std::byte> metadata;  ///< APPn and COM segments, one after the other
  std::uint32_t metadata_crc = 0;
  std::span<const std::byte> tail;  ///< bytes of the file after the image's end; no decoder's
  std::uint32_t tail_crc = 0;

  RecordPart part(std::size_t i) const noexcept;
  /// Returns the bytes of a part. Throws Error{data_loss} if they fail its CRC32C or lie outside of
  /// the payload.
  std::span<const std::byte> read_part(std::size_t i) const;
  /// Returns the tail. Throws Error{data_loss} if it fails its CRC32C.
  std::span<const std::byte> read_tail() const;
  /// Throws Error{data_loss} if the metadata or the zeros behind it are damaged.
  void check_rest() const;
  /// Throws Error{data_loss} if any part or the rest of the record, its tail aside, is damaged.
  void check_all() const;
};

/// True if the first bytes are those of an image record.
bool is_record(std::span<const std::byte> bytes) noexcept;
/// Reads and checks the head: every length is within `bytes`. Throws Error{data_loss} that says
/// what is wrong, also for an unknown version.
Record read_record(std::span<const std::byte> bytes);

/// Returns the number of MCUs in a restart interval of an indexed record. It is a whole row if the
/// row is short, else about a sixth of the row, and if possible a divisor of it.
int restart_interval_of(const Header& header) noexcept;

/// The positions of the rows of blocks of a picture. As in libjpeg, they do not count the padding
/// of MCUs.
struct BlockGrid {
  std::array<int, 3> across{};  ///< blocks in a row
  std::array<int, 3> down{};    ///< rows
  std::array<int, 3> each{};    ///< rows in a full iMCU row
  int imcu_rows = 0;

  explicit BlockGrid(const Header& header) noexcept;
  /// Returns the number of rows of component `c` in an iMCU row.
  int rows_in(int imcu_row, int c) const noexcept;
  /// Returns the number of component `c`'s first row in an iMCU row, among all rows of the picture.
  /// The rows are ordered by iMCU row, and then by component.
  std::size_t first_part(int imcu_row, int c) const noexcept;
  std::size_t part_count() const noexcept;
};

}  // namespace penstock::jpeg
