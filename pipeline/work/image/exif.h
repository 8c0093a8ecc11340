// Which way up a photograph is.
#pragma once

#include <cstddef>
#include <span>

namespace penstock::image {

/// The orientation (1…8) in a TIFF structure, 1 if there is none or it is damaged. Reads only the
/// first directory. Source: CIPA DC-008 (Exif 2.32), 4.5 and 4.6.4, tag 0x0112.
int exif_orientation(std::span<const std::byte> tiff) noexcept;

/// The orientation in a JPEG's first Exif segment, looked for in front of the first scan.
int jpeg_orientation(std::span<const std::byte> jpeg) noexcept;

/// The same in a PNG's eXIf chunk in front of its pixels.
int png_orientation(std::span<const std::byte> png) noexcept;

}  // namespace penstock::image
