// Decoding single images in tests.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "pipeline/codec/codec.h"
#include "tests/support/images.h"

namespace penstock::test {

using image::DecodePlan;
using image::ImageInfo;

/// A sink that keeps all pixels.
class Keeper final : public image::PixelSink {
 public:
  using Plan = std::function<DecodePlan(const ImageInfo&)>;
  explicit Keeper(Plan plan) : plan_(std::move(plan)) {}

  DecodePlan plan(const ImageInfo& info) override {
    info_ = info;
    const DecodePlan chosen = plan_(info);
    pixels_ = {0, chosen.region.width, info.channels, {}};
    return chosen;
  }
  void rows(const std::uint8_t* pixels, std::size_t stride, int count) override {
    const auto size = static_cast<std::size_t>(pixels_.width * pixels_.channels);
    for (int y = 0; y < count; ++y, pixels += stride) {
      pixels_.values.insert(pixels_.values.end(), pixels, pixels + size);
    }
    pixels_.height += count;
  }

  const ImageInfo& info() const { return info_; }
  const Pixels& pixels() const { return pixels_; }

 private:
  Plan plan_;
  ImageInfo info_;
  Pixels pixels_;
};

struct DecodeOutcome {
  Status status;
  ImageInfo info;
  Pixels pixels;
};

inline DecodeOutcome decode(image::Decoder& decoder, std::span<const std::byte> bytes,
                            Keeper::Plan plan, const DecodeOptions& options = {}) {
  Keeper keeper(std::move(plan));
  std::array<image::DecodeJob, 1> jobs = {image::DecodeJob{bytes, &keeper}};
  decoder.decode(jobs, options);
  return {jobs[0].status, keeper.info(), keeper.pixels()};
}

inline DecodePlan all(const ImageInfo& info) {
  return {.region = {0, 0, info.size.height, info.size.width}};
}

/// Returns an empty text if `part` is `whole` cropped to `region`, else the place of their first
/// difference.
inline std::string difference(const Pixels& whole, const Pixels& part, const image::Rect& region) {
  if (part.height != region.height || part.width != region.width) return "another size";
  for (int y = 0; y < region.height; ++y) {
    for (int x = 0; x < region.width; ++x) {
      for (int c = 0; c < whole.channels; ++c) {
        const int expected = whole.at(region.top + y, region.left + x)[c];
        const int got = part.at(y, x)[c];
        if (expected != got) {
          return "row " + std::to_string(y) + " column " + std::to_string(x) + " channel " +
                 std::to_string(c) + ": " + std::to_string(got) + ", not " +
                 std::to_string(expected);
        }
      }
    }
  }
  return {};
}

}  // namespace penstock::test
