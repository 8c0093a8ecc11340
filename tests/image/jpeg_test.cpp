#include "pipeline/work/image/jpeg.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/images.h"

namespace penstock::image {
namespace {

using test::decode_jpeg_plainly;
using test::JpegOptions;
using test::make_jpeg;
using test::make_pixels;
using test::Pixels;

/// Keeps what comes.
class Keeper final : public PixelSink {
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

struct Outcome {
  Status status;
  ImageInfo info;
  Pixels pixels;
};

Outcome decode(Decoder& decoder, std::span<const std::byte> bytes, Keeper::Plan plan,
               const DecodeOptions& options = {}) {
  Keeper keeper(std::move(plan));
  std::array<DecodeJob, 1> jobs = {DecodeJob{bytes, &keeper, {}}};
  decoder.decode(jobs, options);
  return {jobs[0].status, keeper.info(), keeper.pixels()};
}

DecodePlan all(const ImageInfo& info) {
  return {.region = {0, 0, info.size.height, info.size.width}, .to_end = true};
}

/// Empty if `part` is `whole` cropped to `region`, else where they first differ.
std::string difference(const Pixels& whole, const Pixels& part, const Rect& region) {
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

std::string name_of(const Rect& region) {
  return std::to_string(region.width) + "x" + std::to_string(region.height) + "+" +
         std::to_string(region.left) + "+" + std::to_string(region.top);
}

/// Regions at and around every alignment, and some at random.
std::vector<Rect> regions_of(const Size& size, std::uint64_t seed, int random_count) {
  std::vector<Rect> regions = {{0, 0, size.height, size.width}, {0, 0, 1, 1}};
  regions.push_back({size.height - 1, size.width - 1, 1, 1});
  for (int edge = 1; edge < 40; ++edge) {
    if (edge < size.width) {
      regions.push_back({0, edge, size.height, size.width - edge});
      regions.push_back({0, 0, size.height, edge});
    }
    if (edge < size.height) {
      regions.push_back({edge, 0, size.height - edge, size.width});
      regions.push_back({0, 0, edge, size.width});
    }
  }
  Rng rng(seed, 0, 0);
  for (int i = 0; i < random_count; ++i) {
    const int top = static_cast<int>(rng.below(static_cast<std::uint64_t>(size.height)));
    const int left = static_cast<int>(rng.below(static_cast<std::uint64_t>(size.width)));
    const auto below = static_cast<std::uint64_t>(size.height - top);
    const auto beside = static_cast<std::uint64_t>(size.width - left);
    regions.push_back({top, left, 1 + static_cast<int>(rng.below(below)),
                       1 + static_cast<int>(rng.below(beside))});
  }
  return regions;
}

void expect_regions_equal(Decoder& decoder, std::span<const std::byte> bytes, int random_count,
                          const std::string& what) {
  for (const int denominator : {1, 2, 4, 8}) {
    const Pixels whole = decode_jpeg_plainly(bytes, denominator);
    const Size size{whole.height, whole.width};
    for (const Rect& region : regions_of(size, 7, random_count)) {
      const auto plan = [&](const ImageInfo&) { return DecodePlan{denominator, region, false}; };
      const Outcome outcome = decode(decoder, bytes, plan);
      ASSERT_TRUE(outcome.status.ok()) << what << ": " << outcome.status.error().what();
      const std::string differs = difference(whole, outcome.pixels, region);
      ASSERT_EQ(differs, "") << what << " 1/" << denominator << " " << name_of(region);
    }
  }
}

struct Sampling {
  int horizontal;
  int vertical;
};

class JpegRegions : public ::testing::TestWithParam<Sampling> {};

TEST_P(JpegRegions, AreFullDecodesCropped) {
  const Sampling sampling = GetParam();
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  for (const Size size : {Size{97, 131}, Size{64, 160}, Size{41, 35}}) {
    const Pixels image = make_pixels(size.height, size.width, 3);
    for (int variant = 0; variant < 4; ++variant) {
      JpegOptions options{.quality = variant == 3 ? 35 : 92,
                          .horizontal = sampling.horizontal,
                          .vertical = sampling.vertical,
                          .progressive = variant == 1,
                          .restart_interval = variant == 2 ? 3 : 0};
      const std::string what = "variant " + std::to_string(variant) + " of " +
                               std::to_string(size.width) + "x" + std::to_string(size.height);
      expect_regions_equal(*decoder, make_jpeg(image, options), 60, what);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Samplings, JpegRegions,
                         ::testing::Values(Sampling{1, 1}, Sampling{2, 1}, Sampling{1, 2},
                                           Sampling{2, 2}, Sampling{4, 1}, Sampling{1, 4},
                                           Sampling{4, 2}, Sampling{2, 4}, Sampling{3, 1},
                                           Sampling{1, 3}),
                         [](const auto& test) {
                           return std::to_string(test.param.horizontal) + "x" +
                                  std::to_string(test.param.vertical);
                         });

TEST(Jpeg, SmallSizesOfEverySampling) {
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  for (int height = 1; height <= 19; height += 2) {
    for (int width = 1; width <= 19; ++width) {
      for (const Sampling sampling : {Sampling{1, 1}, Sampling{2, 1}, Sampling{2, 2}}) {
        const JpegOptions options{.horizontal = sampling.horizontal, .vertical = sampling.vertical};
        const auto bytes = make_jpeg(make_pixels(height, width, 3), options);
        expect_regions_equal(*decoder, bytes, 4,
                             std::to_string(width) + "x" + std::to_string(height));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Jpeg, GrayAndPlainRgb) {
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  for (const bool progressive : {false, true}) {
    const auto gray = make_jpeg(make_pixels(75, 90, 1), {.progressive = progressive});
    expect_regions_equal(*decoder, gray, 40, "gray");
    EXPECT_EQ(decode(*decoder, gray, all).info.channels, 1);
    const auto rgb = make_jpeg(make_pixels(75, 90, 3), {.progressive = progressive, .rgb = true});
    expect_regions_equal(*decoder, rgb, 40, "rgb");
    EXPECT_EQ(decode(*decoder, rgb, all).info.channels, 3);
  }
}

TEST(Jpeg, ArithmeticCoding) {
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  const JpegOptions options{.horizontal = 2, .vertical = 2, .arithmetic = true};
  expect_regions_equal(*decoder, make_jpeg(make_pixels(70, 90, 3), options), 20, "arithmetic");
}

}  // namespace
}  // namespace penstock::image
