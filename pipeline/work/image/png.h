// PNG by libpng.
#pragma once

#include "pipeline/work/image/codec.h"

namespace penstock::image {

/// Every color type becomes RGB or gray of 8 bits: palettes expanded, 16 bits shifted down, alpha
/// and transparency dropped, no gamma. libpng parses no ancillary chunks; eXIf is looked for by
/// `png_orientation` where the orientation is asked for. Rows below the region are not read, unless
/// the image is interlaced. `denominator` must be 1.
std::unique_ptr<Decoder> make_png_decoder();

}  // namespace penstock::image
