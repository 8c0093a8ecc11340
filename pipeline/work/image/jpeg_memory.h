// What libjpeg-turbo takes for an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

// After <cstdio>, which it needs.
#include <jpeglib.h>

namespace penstock::image {

/// But for tables, of which it keeps a few dozen KiB.
struct WorkingBytes {
  std::uint64_t coefficients = 0;  ///< of the whole image, where it has several scans
  std::uint64_t rows = 0;          ///< at most, at any scale, with those that are taken from it
};

/// Of an image whose header was read, of which so many rows are taken at once.
WorkingBytes working_bytes(jpeg_decompress_struct& info, int taken_rows);

}  // namespace penstock::image
