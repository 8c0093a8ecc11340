// Images as files, to see the images that a trainer gets.
#pragma once

#include <string>
#include <vector>

#include <penstock/image.h>
#include <penstock/image_codec.h>
#include <penstock/tensor.h>

namespace penstock::image {

/// Converts the output of a chain (u8 HWC, or floats in either layout, normalised by `normalize`)
/// back to u8 HWC. It takes a row of a batch, but no batch. Values outside of [0, 255] are clamped.
/// Throws Error{invalid_argument} for a tensor that is not an image of 1 or 3 channels.
Tensor to_pixels(const Tensor& image, const NormalizeOptions& normalize = {});

/// Encodes pixels, u8 [height, width, 1 or 3], as a PNG. Throws Error{invalid_argument} for other
/// tensors.
std::vector<std::byte> encode_png(const Tensor& pixels);

}  // namespace penstock::image
