// Continuing an image with another decoder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "pipeline/codec/codec.h"

namespace penstock::jpeg {

/// A sink between a decoder that starts the image anew, and a sink that already has its plan and
/// perhaps some rows.
class Resumed final : public image::PixelSink {
 public:
  Resumed(image::PixelSink& sink, const image::DecodePlan& plan, int given)
      : sink_(sink), plan_(plan), given_(given) {}

  image::DecodePlan plan(const image::ImageInfo&) override { return plan_; }
  void rows(const std::uint8_t* pixels, std::size_t stride, int count) override {
    const int passed = std::min(given_, count);
    given_ -= passed;
    if (passed < count)
      sink_.rows(pixels + static_cast<std::size_t>(passed) * stride, stride, count - passed);
  }
  void make_room(std::uint64_t bytes) override { sink_.make_room(bytes); }

 private:
  image::PixelSink& sink_;
  image::DecodePlan plan_;
  int given_;
};

}  // namespace penstock::jpeg
