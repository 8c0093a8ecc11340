// JPEG by libjpeg-turbo.
#pragma once

#include "pipeline/work/image/codec.h"

namespace penstock::image {

/// Decodes only the columns and rows that the region needs (rows above it are entropy-decoded,
/// those below not read at all); the pixels are those of a full decode with libjpeg-turbo's
/// defaults at the same scale, cropped. Strict unless told otherwise: the library's first warning
/// about the bytes it reads is the verdict. CMYK and YCCK become RGB as Pillow does it: inverted,
/// as Adobe writes them.
std::unique_ptr<Decoder> make_jpeg_decoder();

}  // namespace penstock::image
