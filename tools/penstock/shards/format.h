// What kind of data a file holds, by its bytes.
#pragma once

#include <string>
#include <string_view>

namespace penstock::tool {

enum class Format {
  folder,
  jpeg,
  png,
  tar,
  tfrecord,
  idx,
  cifar10,
  npy,
  csv,
  lines,
  records,
  unknown
};
/// "TFRecord", "a folder of images"…
std::string_view name_of(Format format) noexcept;

/// Of a file or folder; of one without records by its name. gzip and zlib are looked through.
/// Throws Error{not_found} or Error{unavailable}.
Format detect_format(const std::string& path);

/// Of the first bytes of a file of `size` bytes (not compressed; 0: unknown). `head` should have at
/// least 4 KiB, or the whole file.
Format detect_format(std::string_view head, std::uint64_t size);

}  // namespace penstock::tool
