// Adjustments of brightness, contrast, saturation and hue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pipeline/image/augment.h"

namespace penstock::image {

/// The planes of an image. Values behind `size`, up to the next multiple of kPlaneMultiple, may be
/// overwritten.
struct Planes {
  static constexpr std::size_t kPlaneMultiple = 64;

  std::uint8_t* values = nullptr;
  std::size_t size = 0;    ///< in pixels
  std::size_t stride = 0;  ///< a multiple of kPlaneMultiple, at least size
  int channels = 3;
};

/// Applies the adjustments in order, with torchvision's formulas for u8 tensors in f32. Each result
/// is truncated to u8. An image of one channel has no saturation and no hue. All SIMD targets give
/// the same bits. Source: torchvision, transforms/_functional_tensor.py (adjust_*, _blend,
/// _rgb2hsv, _hsv2rgb).
void adjust(const Planes& planes, std::span<const Adjustment> adjustments);

}  // namespace penstock::image
