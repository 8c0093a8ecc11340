// Files of image records: what `penstock pack` writes. Byte by byte in docs/records.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/file_system.h>
#include <penstock/image_records.h>
#include <penstock/limits.h>

#include "pipeline/sources/offset_index.h"

namespace penstock::records_file {

inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::size_t kFrameBytes = 48;
inline constexpr std::size_t kFooterBytes = 32;
inline constexpr std::array<char, 8> kMagic = {'P', 'N', 'S', 'T', 'R', 'E', 'C', '1'};

/// Of a file: the kind of its records.
std::array<std::byte, kHeaderBytes> make_header(ImageRecordKind kind);
/// Nothing if the bytes are none. Throws Error{data_loss} for a version that is not known.
std::optional<ImageRecordKind> parse_header(std::span<const std::byte> bytes);

/// In front of a record's key and image.
struct Frame {
  std::uint64_t key_bytes = 0;
  std::uint64_t image_bytes = 0;
  std::int64_t label = 0;
  std::uint64_t number = 0;          ///< of the file in the folder that was packed
  std::uint64_t original_bytes = 0;  ///< of that file
  bool as_it_is = false;             ///< the image is that file
  std::uint32_t image_crc = 0;

  std::uint64_t size() const noexcept { return kFrameBytes + key_bytes + image_bytes; }
};
std::vector<std::byte> make_frame(const Frame& frame, std::string_view key);
/// Nothing if the bytes are none, or its lengths are above the limits.
std::optional<Frame> parse_frame(std::span<const std::byte> bytes, const Limits& limits);
/// The frame's CRC32C is over the key as well.
bool frame_is_sound(std::span<const std::byte> frame_and_key);

/// What stands behind the last record.
struct Contents {
  std::vector<IndexEntry> entries;
  std::uint64_t as_they_are = 0;  ///< records that hold the file
  std::vector<std::string> class_names;
};
/// Index and footer of a file whose records end at `offset`.
std::vector<std::byte> make_index(const Contents& contents, std::uint64_t offset);

/// Reads header and index. `notes` are the kind, the number of records that are stored as they are,
/// and the class names. Throws Error{data_loss} for anything but a complete file.
ShardIndex scan(File& file, const Limits& limits);

}  // namespace penstock::records_file
