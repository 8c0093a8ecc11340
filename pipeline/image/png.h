// The PNG decoder, by libpng.
#pragma once

#include "pipeline/codec/codec.h"

namespace penstock::image {

/// Makes a decoder of PNG images. Every color type becomes RGB or gray of 8 bits: palettes are
/// expanded, 16 bits shifted down, and alpha and transparency dropped. Gamma is ignored.
///
/// libpng parses no ancillary chunks; `png_orientation` looks for eXIf if the orientation is
/// wanted. Rows below the region are not read, unless the image is interlaced. `denominator` must
/// be 1.
std::unique_ptr<Decoder> make_png_decoder();

}  // namespace penstock::image
