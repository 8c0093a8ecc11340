// The host's part of making images on a device from coefficient records.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "pipeline/image/device/plan.h"
#include "pipeline/image/geometry.h"
#include "pipeline/jpeg/records/layout.h"

namespace penstock::jpeg {

/// The input from which a device makes an image. `bytes` is a view of the record.
struct PackedImage {
  DevicePlan plan;
  std::span<const std::byte> bytes;
};

/// Plans an image of 1 or 3 channels. Checks the CRC32C of the parts that the geometry needs, and
/// that their lengths are those of rows of blocks; for a whole image, also the rest of the record.
/// Throws Error{data_loss}. Returns nothing if the host has to decode the image, because devices do
/// not support its sampling factors, colors or size.
std::optional<PackedImage> plan_record(const Record& record, const image::Geometry& geometry,
                                       int channels);

}  // namespace penstock::jpeg
