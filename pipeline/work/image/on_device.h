// Image ops that a device carries out: the host chooses what they do, checks the bytes and hands
// them on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <penstock/work.h>

#include "pipeline/work/image/chain.h"

namespace penstock::image {

/// The name of the component that is added.
std::string plan_component(const std::string& component);

/// The size that every image gets. Throws Error{invalid_argument} if it is not known.
Size size_on_device(const ImageOps::Chain& chain);

/// {image: bytes []} -> {image: bytes [], image_plan: u8 [sizeof(jpeg::DevicePlan)]}. Of a
/// coefficient record, the bytes of those rows of blocks that the crop touches, where they lie:
/// only their CRC32C is checked here. Everything else, and what devices can't do, is decoded, and
/// the bytes are finished pixels, but for normalising. Draws the random numbers that the chain
/// draws on the host.
WorkOpPtr make_device_op(std::shared_ptr<const ImageOps::Chain> chain);

/// Images that such ops handed on since the process started.
struct DeviceCounts {
  std::uint64_t packed = 0;  ///< as coefficients
  std::uint64_t pixels = 0;  ///< decoded on the host
};
DeviceCounts device_counts() noexcept;

}  // namespace penstock::image
