#include "pipeline/image/augment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace penstock::image {

namespace {

/// Rounds to nearest, ties to even, like Python's round.
int rounded(double value) {
  return static_cast<int>(std::nearbyint(value));
}

/// Draws a number from [0, last], uniformly.
int draw(int last, Rng& rng) {
  return static_cast<int>(rng.below(static_cast<std::uint64_t>(last) + 1));
}

}  // namespace

Rect choose_random_resized_crop(Size size, const RandomResizedCropOptions& options, Rng& rng) {
  const double area = static_cast<double>(size.height) * size.width;
  const double least = std::log(options.min_ratio);
  const double most = std::log(options.max_ratio);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double share = area * rng.uniform(options.min_scale, options.max_scale);
    const double ratio = std::exp(rng.uniform(least, most));
    // No overflow: the square root of a size that fits is far below the largest int, and others are
    // rejected below.
    const double width = std::nearbyint(std::sqrt(share * ratio));
    const double height = std::nearbyint(std::sqrt(share / ratio));
    if (width < 1 || height < 1 || width > size.width || height > size.height) continue;
    Rect crop{0, 0, static_cast<int>(height), static_cast<int>(width)};
    crop.top = draw(size.height - crop.height, rng);
    crop.left = draw(size.width - crop.width, rng);
    return crop;
  }
  const double ratio = static_cast<double>(size.width) / size.height;
  Rect crop{0, 0, size.height, size.width};
  if (ratio < options.min_ratio) {
    crop.height = std::clamp(rounded(size.width / options.min_ratio), 1, size.height);
  } else if (ratio > options.max_ratio) {
    crop.width = std::clamp(rounded(size.height * options.max_ratio), 1, size.width);
  }
  crop.top = (size.height - crop.height) / 2;
  crop.left = (size.width - crop.width) / 2;
  return crop;
}

Rect choose_center_crop(Size size, Size wanted) noexcept {
  const auto start = [](int have, int want) {
    return want > have ? -((want - have) / 2) : rounded((have - want) / 2.0);
  };
  return {start(size.height, wanted.height), start(size.width, wanted.width), wanted.height,
          wanted.width};
}

Rect choose_random_pad_crop(Size size, Size wanted, int padding, Rng& rng) {
  const int rows = size.height + 2 * padding - wanted.height;
  const int columns = size.width + 2 * padding - wanted.width;
  if (rows < 0 || columns < 0) {
    throw Error(ErrorCode::out_of_range, "a crop of " + std::to_string(wanted.width) + " x " +
                                             std::to_string(wanted.height) + " from an image of " +
                                             std::to_string(size.width) + " x " +
                                             std::to_string(size.height) + " padded by " +
                                             std::to_string(padding));
  }
  const int top = draw(rows, rng);
  const int left = draw(columns, rng);
  return {top - padding, left - padding, wanted.height, wanted.width};
}

Size short_side_size(Size size, int side) noexcept {
  const auto scaled = [side](int across, int along) {
    const std::int64_t length = static_cast<std::int64_t>(side) * across / along;
    return static_cast<int>(std::min<std::int64_t>(length, std::numeric_limits<int>::max()));
  };
  if (size.height <= size.width) return {side, scaled(size.width, size.height)};
  return {scaled(size.height, size.width), side};
}

Adjustments choose_adjustments(const ColorJitterOptions& options, Rng& rng) {
  std::array<int, 4> order = {0, 1, 2, 3};
  for (std::size_t i = 3; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);
  const std::array<double, 4> widths = {options.brightness, options.contrast, options.saturation,
                                        options.hue};
  std::array<float, 4> factors{};
  for (std::size_t i = 0; i < 4; ++i) {
    const double middle = i == 3 ? 0 : 1;
    const double low = i == 3 ? -widths[i] : std::max(middle - widths[i], 0.0);
    factors[i] = static_cast<float>(rng.uniform(low, middle + widths[i]));
  }
  Adjustments chosen;
  for (const int kind : order) {
    const auto i = static_cast<std::size_t>(kind);
    if (widths[i] > 0) {
      chosen.list[chosen.count++] = {static_cast<Adjustment::Kind>(kind), factors[i]};
    }
  }
  return chosen;
}

}  // namespace penstock::image
