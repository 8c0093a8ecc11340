// Recognises the formats that users take for those which are read here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <penstock/file_system.h>

namespace penstock {

/// A format that no source and no decoder reads.
struct OtherFormat {
  std::string_view name;    ///< with its article: "a zip archive"
  std::string_view remedy;  ///< "unpack it first (unzip)"

  /// Returns "a zip archive: unpack it first (unzip)".
  std::string text() const;
};

/// The number of a file's first bytes that tell the most.
inline constexpr std::size_t kOtherFormatHead = 16 << 10;

/// Returns the format of a file of `size` bytes that begins with `head`, or null. Call it for bytes
/// that are refused, since some formats have no more to tell them by than rows of plausible labels.
const OtherFormat* find_other_format(std::span<const std::byte> head, std::uint64_t size) noexcept;

/// Does the same for a file. Returns null also if it can't be read.
const OtherFormat* find_other_format(File& file) noexcept;

/// Throws Error{data_loss} that names the file and its format, if that is one of these. Does
/// nothing if it is not, or if the file can't be read.
void refuse_other_format(File& file);

}  // namespace penstock
