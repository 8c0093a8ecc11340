// The framing of TFRecord files.
//
// A record consists of: the length (u64), the masked CRC32C of the length (u32), `length` bytes of
// data, and the masked CRC32C of the data (u32). Numbers are little-endian. Source: TensorFlow,
// core/lib/io/record_writer.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <penstock/limits.h>

#include "pipeline/sources/offset_index.h"

namespace penstock::tfrecord_file {

inline constexpr std::size_t kHeaderBytes = 12;
inline constexpr std::size_t kFooterBytes = 4;
inline constexpr std::size_t kFrameBytes = kHeaderBytes + kFooterBytes;

/// Returns the length of the data, or nothing if it fails its CRC. REQUIRES: header.size() ==
/// kHeaderBytes.
std::optional<std::uint64_t> parse_header(std::span<const std::byte> header) noexcept;
/// True if `data_and_footer` ends with the CRC of the bytes in front of it. REQUIRES: at least
/// kFooterBytes bytes.
bool data_is_sound(std::span<const std::byte> data_and_footer) noexcept;

/// Begins the error of a damaged header at byte `at`: the first one may belong to another format.
const char* header_error_at(std::uint64_t at) noexcept;

/// Finds the records of a plain shard. An entry is a record with its frame. A record larger than
/// `max_record_bytes` is a fault, and the scan continues with the next. A damaged header, or an
/// early end of the shard, is a fault behind which nothing can be found. If the first record is
/// damaged, and the file is of another format that is known, the fault names that.
ShardIndex scan(File& file, const Limits& limits);

}  // namespace penstock::tfrecord_file
