// Files of image records as a source.
#pragma once

#include <penstock/source.h>
#include <penstock/sources.h>

namespace penstock {

/// {image: bytes, label: i64, key: bytes}. The image is an image record or, for what could not be
/// one, the file that was packed, whose CRC32C is checked here; records are checked by those who
/// decode them, as far as they read them. Throws as image_records says.
SourcePtr make_image_records_source(const Paths& paths, const FileOptions& options);

}  // namespace penstock
