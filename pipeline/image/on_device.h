// Image ops that a device carries out. The host chooses what they do, checks the bytes and passes
// them on.
#pragma once

#include <array>
#include <cstddef>
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
/// a view of the record. Only their CRC32C is checked here. Of a baseline JPEG, it passes on the
/// entropy-coded bytes if the context's DeviceScans allows it and the element is written into a
/// batch. All other images, and those that devices do not support, are decoded here: the bytes are
/// then finished pixels, except for normalising. The op draws the same random numbers as the chain
/// on the host.
WorkOpPtr make_device_op(std::shared_ptr<const ImageOps::Chain> chain);

/// The reason why the host decodes an image.
enum class WhyHost {
  backend,      ///< libjpeg-turbo was chosen
  format,       ///< neither a JPEG nor a coefficient record
  unchecked,    ///< nothing would find out whether the device decodes it
  header,       ///< of a JPEG that is progressive, or unusual in another way
  orientation,  ///< it has to be turned
  room,         ///< its bytes are too many for its share of a batch
  ops,          ///< more than crops, a resize and a flip
  size,         ///< it takes too much working memory, or has unusual tables or sampling factors
  undecoded,    ///< the device did not decode it
};
inline constexpr std::size_t kWhyHostCount = 9;

/// Returns the name that statistics use.
const char* name_of(WhyHost why) noexcept;
/// Counts images that a device did not decode.
void count_undecoded(std::uint64_t images) noexcept;

/// The images that such ops passed on, or had to decode, since the process started.
struct DeviceCounts {
  std::uint64_t packed = 0;  ///< passed on as coefficients
  std::uint64_t scans = 0;   ///< passed on as JPEGs
  /// By reason. Undecoded images are among `scans` and, made again, among `unchecked`.
  std::array<std::uint64_t, kWhyHostCount> host{};
};
DeviceCounts device_counts() noexcept;

}  // namespace penstock::image
