// The host's part of making images on a device from coefficient records.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "pipeline/work/image/geometry.h"
#include "pipeline/work/jpeg/device/plan.h"
#include "pipeline/work/jpeg/records/layout.h"

namespace penstock::jpeg {

/// What a device makes an image from. The bytes are a view of the record.
struct PackedImage {
  DevicePlan plan;
  std::span<const std::byte> bytes;
};

/// For pixels of 1 or 3 channels. Checks the CRC32C of those parts that the geometry needs, and
/// that they are rows of blocks by their lengths; for a whole image the rest of the record too.
/// Throws Error{data_loss}. Nothing if the host has to decode it: sampling factors, colors or sizes
/// that devices don't do.
std::optional<PackedImage> plan_record(const Record& record, const image::Geometry& geometry,
                                       int channels);

}  // namespace penstock::jpeg
