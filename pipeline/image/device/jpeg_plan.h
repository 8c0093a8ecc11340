// The host's part of making images on a device from JPEGs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "pipeline/image/device/record_plan.h"
#include "pipeline/image/geometry.h"
#include "pipeline/jpeg/header.h"

namespace penstock::jpeg {

/// Plans an image of 1 or 3 channels from a file whose header `read_header` accepted. The packed
/// bytes are all those behind the header. Does not read them: the device tells whether it decoded
/// them. Returns nothing if the host has to decode the image, because devices do not support its
/// tables, sampling factors, colors or size. The coefficients and samples of a crop of 640 x 500
/// pixels at 4:2:0 fit the working memory.
std::optional<PackedImage> plan_jpeg(const Header& header, std::span<const std::byte> file,
                                     const image::Geometry& geometry, int channels,
                                     int chunk_bits = kChunkBits);

}  // namespace penstock::jpeg
