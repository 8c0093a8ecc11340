// The source that reads files of image records.
#pragma once

#include <penstock/source.h>
#include <penstock/sources.h>

namespace penstock {

/// Makes a source of {image: bytes, label: i64, key: bytes}. An image is an image record or, if no
/// record could be made of it, the original file. The source checks the CRC32C of original files.
/// Decoders check records, as far as they read them. Throws as image_records says.
SourcePtr make_image_records_source(const Paths& paths, const FileOptions& options);

}  // namespace penstock
