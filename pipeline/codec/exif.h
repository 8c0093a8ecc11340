// The orientation of a photograph, from its Exif data.
#pragma once

#include <cstddef>
#include <span>

namespace penstock::image {

/// Returns the orientation (1…8) in a TIFF structure, or 1 if it has none or is damaged. Reads only
/// the first directory. Source: CIPA DC-008 (Exif 2.32), 4.5 and 4.6.4, tag 0x0112. The standard
/// stores a SHORT; some writers store a LONG.
int exif_orientation(std::span<const std::byte> tiff) noexcept;

/// Returns the orientation in a JPEG's first Exif segment in front of its first scan. Bytes between
/// segments are skipped.
int jpeg_orientation(std::span<const std::byte> jpeg) noexcept;

/// Returns the orientation in a PNG's eXIf chunk, before or behind its pixels. Without one, returns
/// that of the text "Raw profile type exif" or "… APP1", in which ImageMagick writes Exif as
/// hexadecimal digits. Chunks with a wrong checksum do not count. Throws std::bad_alloc.
int png_orientation(std::span<const std::byte> png);

}  // namespace penstock::image
