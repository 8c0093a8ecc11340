// The choices that random image ops make.
#pragma once

#include <array>
#include <span>

#include <penstock/image.h>
#include <penstock/rng.h>

#include "pipeline/codec/codec.h"

namespace penstock::image {

/// Chooses a crop of a random share of the area and a random aspect ratio (log-uniform). After ten
/// draws that do not fit, returns the largest centred crop within the ratios. Source: torchvision,
/// RandomResizedCrop.get_params.
Rect choose_random_resized_crop(Size size, const RandomResizedCropOptions& options, Rng& rng);

/// Returns the centred part of size `wanted`. It reaches beyond an image that is smaller. Source:
/// torchvision, center_crop.
Rect choose_center_crop(Size size, Size wanted) noexcept;

/// Chooses a random part of the image padded on each side. The part may reach beyond the image.
/// Throws Error{out_of_range} if it does not fit the padded image.
Rect choose_random_pad_crop(Size size, Size wanted, int padding, Rng& rng);

/// Returns the size whose short side is `side`. The long side keeps the aspect ratio, truncated,
/// and is at most the largest int.
Size short_side_size(Size size, int side) noexcept;

struct Adjustment {
  enum class Kind { brightness, contrast, saturation, hue };
  Kind kind = Kind::brightness;
  float factor = 1;
};

/// Up to four adjustments in a random order.
struct Adjustments {
  std::array<Adjustment, 4> list;
  std::size_t count = 0;

  std::span<const Adjustment> all() const noexcept { return {list.data(), count}; }
};

/// Chooses adjustments. Source: torchvision, ColorJitter.get_params.
Adjustments choose_adjustments(const ColorJitterOptions& options, Rng& rng);

}  // namespace penstock::image
