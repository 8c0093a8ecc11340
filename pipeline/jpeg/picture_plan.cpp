// Choosing the parts of an image to decode for a region, and the memory for its samples.
#include <algorithm>

#include "pipeline/core/both.h"
#include "pipeline/jpeg/picture.h"

namespace penstock::jpeg {
namespace {

using both::divide_up;

/// The most rows above an iMCU row that may still be needed: one row group and its context.
constexpr int kMaxKept = 5;
constexpr std::size_t align(std::size_t bytes) noexcept {
  return (bytes + 63) / 64 * 64;
}

}  // namespace

Foreign Picture::choose(const image::DecodePlan& plan, std::uint64_t max_bytes,
                        image::PixelSink& sink) {
  const Header& header = *header_;
  given_ = 0;  // the library may do the whole image
  kernels_ = &row_kernels();
  side_ = kBlockSide / plan.denominator;
  shrunk_ = {divide_up(header.height, plan.denominator), divide_up(header.width, plan.denominator)};
  region_ = plan.region;
  whole_ = image::check_region(region_, shrunk_);
  const bool single = header.component_count == 1;
  context_ = false;
  for (int i = 0; i < header.component_count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const Component& component = header.components[place];
    Strip& strip = strips_[place];
    strip = {};
    strip.needed = i == 0 || channels_ == 3;
    static_cast<StripPlan&>(strip) = plan_strip({.width = header.width,
                                                 .height = header.height,
                                                 .horizontal = component.horizontal,
                                                 .vertical = component.vertical,
                                                 .most_across = header.max_horizontal,
                                                 .most_down = header.max_vertical,
                                                 .denominator = plan.denominator,
                                                 .left = region_.left,
                                                 .right = region_.left + region_.width,
                                                 .needed = strip.needed});
    if (!strip.possible) return Foreign::sampling;
    context_ = context_ || strip.has_context();
    Plane& plane = scan_.planes[place];
    plane.side = strip.needed ? strip.side : 0;
    plane.horizontal = single ? 1 : component.horizontal;
    plane.vertical = single ? 1 : component.vertical;
    plane.first_block = strip.needed ? strip.first_block : 0;
    plane.last_block = strip.needed ? strip.last_block : 0;
    strip.vertical = component.vertical;
  }
  scan_.place_count = 0;
  for (int i = 0; i < header.component_count; ++i) {
    Plane& plane = scan_.planes[static_cast<std::size_t>(i)];
    for (int y = 0; y < plane.vertical; ++y)
      for (int x = 0; x < plane.horizontal; ++x)
        scan_.places[static_cast<std::size_t>(scan_.place_count++)] = {&plane, x, y};
  }
  scan_.mcus = single ? divide_up(header.width, kBlockSide)
                      : divide_up(header.width, header.max_horizontal * kBlockSide);
  imcu_height_ = side_ * header.max_vertical;
  imcu_rows_ = divide_up(header.height, header.max_vertical * kBlockSide);
  const int bottom = region_.top + region_.height - 1;
  last_imcu_ = bottom / imcu_height_;
  // Decode as much as the library does, even if these pixels need less: the library checks more
  // bytes.
  if (context_ && bottom % imcu_height_ >= imcu_height_ - header.max_vertical)
    last_imcu_ = std::min(last_imcu_ + 1, imcu_rows_ - 1);
  rows_ = single ? header.components[0].vertical : 1;
  row_ = 0;
  next_imcu_ = 0;
  return layout(max_bytes, sink) ? Foreign::none : Foreign::memory;
}

bool Picture::layout(std::uint64_t max_bytes, image::PixelSink& sink) {
  const auto blocks_across = [&](const Component& component) {
    return static_cast<std::size_t>(scan_.mcus) * static_cast<std::size_t>(component.horizontal);
  };
  row_stride_ = align(static_cast<std::size_t>(region_.width + 2 * kBlockSide) * 3 +
                      image::kRowPadding + 3 * kRowSlack);
  std::size_t size = 64 + kRows * row_stride_;
  for (int i = 0; i < header_->component_count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    Strip& strip = strips_[place];
    if (!strip.needed) continue;
    const auto side = static_cast<std::size_t>(strip.side);
    strip.stride = align(blocks_across(header_->components[place]) * side + 2 * kMargin);
    size += strip.stride * (kMaxKept + static_cast<std::size_t>(strip.vertical) * side);
    size +=
        align(static_cast<std::size_t>(region_.width + 4 * kBlockSide) + 2 * kMargin + kRowSlack);
  }
  if (size > max_bytes) return false;
  let_go();  // frees the memory of an image that failed
  if (size > image::kUnaskedBytes) sink.make_room(size);
  if (memory_.size() < size) memory_ = std::vector<std::uint8_t>(size);
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  std::uint8_t* at = memory_.data() + (64 - address % 64) % 64;
  const auto take = [&](std::size_t bytes) {
    std::uint8_t* taken = at;
    at += bytes;
    return taken;
  };
  pixels_ = take(kRows * row_stride_);
  for (int i = 0; i < header_->component_count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    Strip& strip = strips_[place];
    if (!strip.needed) continue;
    const auto rows = kMaxKept + static_cast<std::size_t>(strip.vertical * strip.side);
    strip.samples = take(strip.stride * rows) + kMargin;
    strip.pixels = take(
        align(static_cast<std::size_t>(region_.width + 4 * kBlockSide) + 2 * kMargin + kRowSlack));
    scan_.planes[place].stride = strip.stride;
  }
  return true;
}

void Picture::let_go() noexcept {
  if (memory_.size() > image::kUnaskedBytes) memory_ = std::vector<std::uint8_t>();
}

}  // namespace penstock::jpeg
