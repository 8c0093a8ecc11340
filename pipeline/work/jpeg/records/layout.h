// The bytes of an image record: one JPEG in a form that decodes faster, to the same pixels. Byte by
// byte in docs/records.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <penstock/error.h>

#include "pipeline/work/jpeg/header.h"

namespace penstock::jpeg {

enum class RecordKind : std::uint8_t {
  coefficients = 1,  ///< the payload is rows of blocks, packed
  indexed = 2        ///< the payload is a JPEG file with restart markers
};
inline constexpr std::size_t kRecordKinds = 2;
/// "coefficients" or "indexed".
const char* name_of(RecordKind kind) noexcept;

inline constexpr std::uint8_t kRecordVersion = 1;
inline constexpr std::array<std::uint8_t, 4> kRecordMagic = {0x89, 'P', 'N', 'R'};
/// In front of tables and index.
inline constexpr std::size_t kRecordHead = 56;
/// Zeros at a record's end, which let kernels read whole vectors.
inline constexpr std::size_t kRecordSlack = 256;

/// A row of blocks, or a group of restart intervals: where in the payload it begins, and the CRC32C
/// of its bytes, which end where the next one's begin.
struct RecordPart {
  std::uint32_t offset = 0;
  std::uint32_t crc = 0;
};

/// A record whose head was checked. The spans are views of the record.
struct Record {
  RecordKind kind = RecordKind::coefficients;
  int orientation = 1;  ///< EXIF, 1…8
  Header header;        ///< of coefficients: all that a Picture needs; else only sizes and color
  int interval = 0;     ///< of an indexed record: MCUs of a restart interval
  std::size_t part_count = 0;
  const std::byte* parts = nullptr;
  std::span<const std::byte> payload;
  std::span<const std::byte> metadata;  ///< APPn and COM segments, one after the other
  std::uint32_t metadata_crc = 0;

  RecordPart part(std::size_t i) const noexcept;
  /// The bytes of a part. Throws Error{data_loss} if they fail its CRC32C or lie outside of the
  /// payload.
  std::span<const std::byte> read_part(std::size_t i) const;
  /// Throws Error{data_loss} if metadata or the bytes at the record's end are damaged.
  void check_rest() const;
  /// Throws Error{data_loss} if any part or the rest is.
  void check_all() const;
};

/// True if the first bytes are those of an image record.
bool is_record(std::span<const std::byte> bytes) noexcept;
/// Reads and checks the head: every length is within `bytes`. Throws Error{data_loss} saying what
/// is wrong; a version that is not known is one.
Record read_record(std::span<const std::byte> bytes);

/// MCUs of a restart interval of an indexed record: a short row, or about a sixth of one, which it
/// divides if that can be.
int restart_interval_of(const Header& header) noexcept;

/// Where the rows of blocks of a picture stand, as libjpeg counts them: without the padding of
/// MCUs.
struct BlockGrid {
  std::array<int, 3> across{};  ///< blocks of a row
  std::array<int, 3> down{};    ///< rows
  std::array<int, 3> each{};    ///< rows of a full iMCU row
  int imcu_rows = 0;

  explicit BlockGrid(const Header& header) noexcept;
  /// Rows that component `c` has in an iMCU row.
  int rows_in(int imcu_row, int c) const noexcept;
  /// The number of component `c`'s first row in an iMCU row, among all rows of the picture: iMCU
  /// row by iMCU row, component by component.
  std::size_t first_part(int imcu_row, int c) const noexcept;
  std::size_t part_count() const noexcept;
};

}  // namespace penstock::jpeg
