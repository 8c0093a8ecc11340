#include "pipeline/codec/codec.h"

#include <string>

namespace penstock::image {

void check_pixels(std::uint64_t width, std::uint64_t height, const Limits& limits) {
  if (width * height <= limits.max_pixels) return;
  throw Error(ErrorCode::out_of_range, "an image of " + std::to_string(width) + " x " +
                                           std::to_string(height) + " pixels, more than " +
                                           std::to_string(limits.max_pixels) + " (max_pixels)");
}

bool check_region(const Rect& region, Size size) {
  if (region.top < 0 || region.left < 0 || region.height > size.height - region.top ||
      region.width > size.width - region.left) {
    throw Error(ErrorCode::internal, "the region is outside the image");
  }
  return region == Rect{0, 0, size.height, size.width};
}

}  // namespace penstock::image
