// Faults for synthetic data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <penstock/rng.h>

namespace penstock::tool {

/// Returns the names of the faults that an encoded image can be given:
///
/// - "truncate": cut at any place
///
/// - "tenth": nine tenths are missing
///
/// - "flip": one bit is flipped
///
/// - "header": the first bytes are not those of an image
///
/// - "empty": no bytes
///
/// - "dimensions": a header that claims 65,500 x 65,500 pixels
///
/// - "scans": thousands of scans
///
/// - "tables": an impossible Huffman table, or no quantisation tables
///
/// For a decoder, all are errors, except for a flipped bit and a cut behind the bytes that it
/// reads.
const std::vector<std::string>& image_faults();

/// A damaged image.
struct Damaged {
  std::string bytes;
  std::string detail;  ///< such as "cut to 1234 of 23456 bytes"
};

/// Returns `jpeg` with the fault. Throws Error{invalid_argument} for an unknown fault. REQUIRES: a
/// JPEG that `encode_jpeg` made.
Damaged damage_image(std::string_view fault, std::string jpeg, Rng& rng);

/// Returns the offset of the first segment with this marker (0xc0 for SOF0), at its 0xff; npos if
/// there is none.
std::size_t find_segment(std::string_view jpeg, int marker);

}  // namespace penstock::tool
