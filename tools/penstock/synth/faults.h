// Damage on demand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <penstock/rng.h>

namespace penstock::tool {

/// What can be done to an encoded image, by name:
/// "truncate" (cut anywhere), "tenth" (nine tenths are missing), "flip" (one bit), "header" (the
/// first bytes are not an image's), "empty", "dimensions" (65,500 x 65,500 are claimed), "scans"
/// (thousands of them), "tables" (a Huffman table that can't be). All but a flipped bit, or a cut
/// behind what is read, are errors to a decoder.
const std::vector<std::string>& image_faults();

struct Damaged {
  std::string bytes;
  std::string detail;  ///< "cut to 1234 of 23456 bytes"
};

/// `jpeg` with that fault. Throws Error{invalid_argument} for another name. REQUIRES: a JPEG as
/// `encode_jpeg` makes them.
Damaged damage_image(std::string_view fault, std::string jpeg, Rng& rng);

/// Offset of the first segment with this marker (0xc0 for SOF0), at its 0xff; npos if there is
/// none.
std::size_t find_segment(std::string_view jpeg, int marker);

}  // namespace penstock::tool
