// The format of a file's data, found from its bytes.
#pragma once

#include <string>
#include <string_view>

#include "pipelines/format.h"  // IWYU pragma: export

namespace penstock::tool {

/// Returns the name: "TFRecord", "a folder of images"…
std::string_view name_of(Format format) noexcept;

/// Detects the format of a file or folder, also through gzip and zlib. For a file without records,
/// its name decides. Throws Error{not_found} or Error{unavailable}.
Format detect_format(const std::string& path);

/// Detects the format from the first bytes of a file. `head` should hold at least 4 KiB, or the
/// whole file, uncompressed. `size`: of the file; 0: unknown.
Format detect_format(std::string_view head, std::uint64_t size);

}  // namespace penstock::tool
