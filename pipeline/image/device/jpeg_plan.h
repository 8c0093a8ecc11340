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
/// tables, sampling factors, colors or size. The sizes that fit are those whose coefficients and
/// samples fit kDeviceImageBytes: 4.5 bytes for each pixel of a crop at 4:2:0.
std::optional<PackedImage> plan_jpeg(const Header& header, std::span<const std::byte> file,
                                     const image::Geometry& geometry, int channels,
                                     int chunk_bits = kChunkBits);

}  // namespace penstock::jpeg
