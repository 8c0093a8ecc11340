// The memory that libjpeg-turbo takes for an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

// After <cstdio>, which it needs.
#include <jpeglib.h>

namespace penstock::image {

/// The bytes that it takes, without tables, which take a few dozen KiB.
struct WorkingBytes {
  std::uint64_t coefficients = 0;  ///< of the whole image, if it has several scans
  /// At most, at any scale, with the rows that are taken from it.
  std::uint64_t rows = 0;
};

/// Returns the memory for an image whose header was read and of which `taken_rows` rows are taken
/// at once.
WorkingBytes working_bytes(jpeg_decompress_struct& info, int taken_rows);

}  // namespace penstock::image
