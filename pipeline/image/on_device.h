// Image ops that a device carries out. The host chooses what they do, checks the bytes and passes
// them on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <penstock/work.h>

#include "pipeline/image/chain.h"

namespace penstock::image {

/// Returns the name of the component that is added.
std::string plan_component(const std::string& component);

/// Returns the size of every image. Throws Error{invalid_argument} if it is not known.
Size size_on_device(const ImageOps::Chain& chain);

/// Makes an op from {image: bytes []} to {image: bytes [], image_plan: u8
/// [sizeof(jpeg::DevicePlan)]}.
///
/// For a coefficient record, it passes on the bytes of the rows of blocks that the crop touches, as
/// a view of the record. Only their CRC32C is checked here. All other images, and records that
/// devices do not support, are decoded here: the bytes are then finished pixels, except for
/// normalising. The op draws the same random numbers as the chain on the host.
WorkOpPtr make_device_op(std::shared_ptr<const ImageOps::Chain> chain);

/// The images that such ops passed on since the process started.
struct DeviceCounts {
  std::uint64_t packed = 0;  ///< as coefficients
  std::uint64_t pixels = 0;  ///< decoded on the host
};
DeviceCounts device_counts() noexcept;

}  // namespace penstock::image
