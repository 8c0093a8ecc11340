// The format of files of image records, which `penstock pack` writes. docs/records.md describes it
// byte by byte.
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

/// Returns the header of a file with records of this kind. If they may have tails, it is of another
/// version, which readers that know no tails refuse.
std::array<std::byte, kHeaderBytes> make_header(ImageRecordKind kind, bool tails = false);

/// The fields in front of a record's key and image.
struct Frame {
  std::uint64_t key_bytes = 0;
  std::uint64_t image_bytes = 0;
  std::int64_t label = 0;
  std::uint64_t number = 0;          ///< number of the original file in the folder that was packed
  std::uint64_t original_bytes = 0;  ///< size of the original file
  bool as_it_is = false;             ///< the image is the original file
  std::uint32_t image_crc = 0;

  std::uint64_t size() const noexcept { return kFrameBytes + key_bytes + image_bytes; }
};
std::vector<std::byte> make_frame(const Frame& frame, std::string_view key);
/// Reads a frame. Returns nothing if the bytes are no frame, or if its lengths are above the
/// limits.
std::optional<Frame> parse_frame(std::span<const std::byte> bytes, const Limits& limits);
/// True if a frame and its key pass the frame's CRC32C.
bool frame_is_sound(std::span<const std::byte> frame_and_key);

/// The contents of the index behind the last record.
struct Contents {
  std::vector<IndexEntry> entries;
  std::uint64_t as_they_are = 0;  ///< number of records that hold original files
  std::vector<std::string> class_names;
};
/// Returns the index and footer of a file whose records end at `offset`.
std::vector<std::byte> make_index(const Contents& contents, std::uint64_t offset);

/// Reads header and index. The `notes` are the kind, the number of records that hold original
/// files, and the class names. Throws Error{data_loss} for anything but a complete file.
ShardIndex scan(File& file, const Limits& limits);

}  // namespace penstock::records_file
