// The JPEG decoder by libjpeg-turbo.
#pragma once

#include "pipeline/codec/codec.h"

namespace penstock::image {

/// Makes a decoder that decodes only the columns and rows that the region needs. Rows above the
/// region are entropy-decoded; rows below it are not read at all. The pixels are those of a full
/// decode with libjpeg-turbo's defaults at the same scale, cropped.
///
/// Strict unless told otherwise: the library's first warning that may change a pixel is the error
/// of the image, see warnings.h. CMYK and YCCK become RGB as in Pillow: inverted, as Adobe writes
/// them.
std::unique_ptr<Decoder> make_jpeg_decoder();

}  // namespace penstock::image
