#include "pipeline/jpeg/turbo/turbo.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/data.h"
#include "tests/support/decoding.h"
#include "tests/support/images.h"
#include "tests/support/places.h"
#include "tests/support/sanitizer.h"

namespace penstock::image {
namespace {

using test::all;
using test::decode;
using test::decode_jpeg_plainly;
using test::DecodeOutcome;
using test::difference;
using test::JpegOptions;
using test::make_jpeg;
using test::make_pixels;
using test::Pixels;

std::string name_of(const Rect& region) {
  return std::to_string(region.width) + "x" + std::to_string(region.height) + "+" +
         std::to_string(region.left) + "+" + std::to_string(region.top);
}

/// Regions at and around every alignment, and some at random.
std::vector<Rect> regions_of(const Size& size, std::uint64_t seed, int random_count) {
  std::vector<Rect> regions = {{0, 0, size.height, size.width}, {0, 0, 1, 1}};
  regions.push_back({size.height - 1, size.width - 1, 1, 1});
  for (int edge = 1; edge < 40; edge += test::kAddressSanitizer ? 3 : 1) {
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
      const auto plan = [&](const ImageInfo&) { return DecodePlan{denominator, region}; };
      const DecodeOutcome outcome = decode(decoder, bytes, plan);
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
  constexpr int kRegions = test::kAddressSanitizer ? 8 : 60;
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
      expect_regions_equal(*decoder, make_jpeg(image, options), kRegions, what);
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

TEST(Jpeg, UnusualSamplings) {
  // Any factors of three components, luminance not always the finest.
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  Rng rng(5, 0, 0);
  const Pixels image = make_pixels(57, 83, 3);
  for (int round = 0; round < 60; ++round) {
    JpegOptions options{.progressive = round % 4 == 0};
    std::string what;
    int blocks = 0;
    for (int& factor : options.factors) {
      factor = 1 + static_cast<int>(rng.below(round % 2 == 0 ? 2 : 4));
      what += std::to_string(factor) + " ";
    }
    const auto& f = options.factors;
    for (std::size_t i = 0; i < 6; i += 2) blocks += f[i] * f[i + 1];
    if (blocks > 10) continue;                 // the format's limit
    const auto fits = [&](std::size_t axis) {  // libjpeg refuses fractional ratios
      const int most = std::max({f[axis], f[axis + 2], f[axis + 4]});
      return most % f[axis] == 0 && most % f[axis + 2] == 0 && most % f[axis + 4] == 0;
    };
    if (!fits(0) || !fits(1)) continue;
    expect_regions_equal(*decoder, make_jpeg(image, options), 12, what);
    if (HasFatalFailure()) return;
  }
}

TEST(Jpeg, TruncatedProgressive) {
  // The library smooths across blocks where a progressive file never sent some coefficients.
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  const auto bytes =
      make_jpeg(make_pixels(90, 120, 3), {.horizontal = 2, .vertical = 2, .progressive = true});
  // Cut in front of each scan and close the file properly.
  int cuts = 0;
  for (std::size_t at = 2; at + 1 < bytes.size(); ++at) {
    if (bytes[at] != std::byte{0xff} || bytes[at + 1] != std::byte{0xda} || ++cuts == 1) continue;
    std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    cut.push_back(std::byte{0xff});
    cut.push_back(std::byte{0xd9});
    expect_regions_equal(*decoder, cut, 12, "before scan " + std::to_string(cuts));
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(cuts, 8);
}

TEST(Jpeg, GrayOfColor) {
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  const auto bytes = make_jpeg(make_pixels(40, 50, 3), {.horizontal = 2, .vertical = 2});
  const DecodeOutcome got = decode(*decoder, bytes, all, {.channels = 1});
  ASSERT_TRUE(got.status.ok());
  EXPECT_EQ(got.info.channels, 1);
  EXPECT_EQ(got.pixels.values, decode_jpeg_plainly(bytes, 1, JCS_GRAYSCALE).values);
}

std::vector<std::uint8_t> from_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(Jpeg, CmykOfPillow) {
  std::ifstream golden(test::source_dir() + "/tests/golden/cmyk_pillow.txt");
  ASSERT_TRUE(golden.is_open());
  std::array<std::string, 4> lines;
  for (std::string& line : lines) ASSERT_TRUE(std::getline(golden, line));
  const std::vector<std::uint8_t> file = from_hex(lines[1]);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(file));
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  const DecodeOutcome rgb = decode(*decoder, bytes, all);
  ASSERT_TRUE(rgb.status.ok()) << rgb.status.error().what();
  EXPECT_EQ(rgb.info.channels, 3);
  EXPECT_EQ(rgb.pixels.values, from_hex(lines[2]));
  const DecodeOutcome gray = decode(*decoder, bytes, all, {.channels = 1});
  EXPECT_EQ(gray.pixels.values, from_hex(lines[3]));
}

TEST(Jpeg, CmykAndYcckRegions) {
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  for (const bool ycck : {false, true}) {
    const auto bytes =
        make_jpeg(make_pixels(60, 75, 4), {.horizontal = 2, .vertical = 2, .ycck = ycck});
    const DecodeOutcome whole = decode(*decoder, bytes, all);
    ASSERT_TRUE(whole.status.ok()) << whole.status.error().what();
    const Pixels inks = decode_jpeg_plainly(bytes);
    ASSERT_EQ(inks.channels, 4);
    for (std::size_t i = 0; i < whole.pixels.values.size() / 3; ++i) {
      // Inverted, so what is stored as black is how much light there is.
      const int light = inks.values[4 * i + 3];
      for (std::size_t c = 0; c < 3; ++c) {
        const double ink = (255 - inks.values[4 * i + c]) * light / 255.0;
        ASSERT_NEAR(whole.pixels.values[3 * i + c], light - ink, 0.51);
      }
    }
    for (const Rect& region : regions_of({60, 75}, 3, 40)) {
      const auto plan = [&](const ImageInfo&) { return DecodePlan{1, region}; };
      const DecodeOutcome part = decode(*decoder, bytes, plan);
      ASSERT_EQ(difference(whole.pixels, part.pixels, region), "") << name_of(region);
    }
  }
}

TEST(Jpeg, OrientationOnlyWhereAskedFor) {
  auto bytes = make_jpeg(make_pixels(16, 24, 3));
  const std::string exif(
      "\xff\xe1\x00\x1e"
      "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0",
      32);
  const auto* first = reinterpret_cast<const std::byte*>(exif.data());
  bytes.insert(bytes.begin() + 2, first, first + exif.size());
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  EXPECT_EQ(decode(*decoder, bytes, all).info.orientation, 1);
  EXPECT_EQ(decode(*decoder, bytes, all, {.orient = true}).info.orientation, 6);
}

TEST(Jpeg, RealPhotographsInRandomRegions) {
  const std::string folder = test::data_path("imagenet-sample");
  PENSTOCK_NEED_DATA(folder);
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (files++ % 4 > 0 && test::kAddressSanitizer) continue;  // takes long
    const std::vector<std::byte> bytes = test::read_bytes(entry.path());
    Rng rng(9, static_cast<std::uint64_t>(files), 0);
    const int denominator = 1 << rng.below(4);
    const Pixels whole = decode_jpeg_plainly(bytes, denominator, JCS_RGB);
    for (int i = 0; i < 3; ++i) {
      const int top = static_cast<int>(rng.below(static_cast<std::uint64_t>(whole.height)));
      const int left = static_cast<int>(rng.below(static_cast<std::uint64_t>(whole.width)));
      const auto below = static_cast<std::uint64_t>(whole.height - top);
      const auto beside = static_cast<std::uint64_t>(whole.width - left);
      const Rect region{top, left, 1 + static_cast<int>(rng.below(below)),
                        1 + static_cast<int>(rng.below(beside))};
      const auto plan = [&](const ImageInfo&) { return DecodePlan{denominator, region}; };
      DecodeOutcome part = decode(*decoder, bytes, plan);
      ASSERT_TRUE(part.status.ok()) << entry.path() << part.status.error().what();
      if (part.info.channels == 1) part.pixels = test::as_rgb(part.pixels);
      ASSERT_EQ(difference(whole, part.pixels, region), "") << entry.path() << name_of(region);
    }
  }
  EXPECT_EQ(files, 300);
}

}  // namespace
}  // namespace penstock::image
