// Images as files, to look at what a trainer would see.
#pragma once

#include <string>
#include <vector>

#include <penstock/image.h>
#include <penstock/image_codec.h>
#include <penstock/tensor.h>

namespace penstock::image {

/// Turns what a chain made (u8 HWC, or floats in either layout, normalised by `normalize`) back
/// into u8 HWC; a batch's row will do, a batch will not. Values outside of [0, 255] are clamped.
/// Throws Error{invalid_argument} for a tensor that is no image of 1 or 3 channels.
Tensor to_pixels(const Tensor& image, const NormalizeOptions& normalize = {});

/// A PNG of pixels, u8 [height, width, 1 or 3]. Throws Error{invalid_argument} for others.
std::vector<std::byte> encode_png(const Tensor& pixels);

}  // namespace penstock::image
