// Bit for bit what libjpeg-turbo decodes, by every SIMD target.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/jpeg/lanes.h"
#include "tests/support/data.h"
#include "tests/support/decoding.h"
#include "tests/support/images.h"
#include "tests/support/jpeg_pair.h"
#include "tests/support/simd.h"

namespace penstock::jpeg {
namespace pixels_test {

using image::DecodePlan;
using image::Rect;
using test::JpegOptions;
using test::JpegPair;
using test::make_jpeg;
using test::make_pixels;
using Bytes = std::vector<std::byte>;

/// More images for the same tests: $PENSTOCK_JPEGS times as many.
int scaled(int few) {
  const char* text = std::getenv("PENSTOCK_JPEGS");
  return text == nullptr ? few : few * std::atoi(text);
}

int below(Rng& rng, int limit) {
  return static_cast<int>(rng.below(static_cast<std::uint64_t>(limit)));
}

Rect random_region(int height, int width, Rng& rng) {
  const int top = below(rng, height);
  const int left = below(rng, width);
  return {top, left, 1 + below(rng, height - top), 1 + below(rng, width - left)};
}

int divided(int length, int denominator) {
  return (length + denominator - 1) / denominator;
}

/// The whole and some regions at every scale.
void expect_same(JpegPair& pair, const Bytes& bytes, int height, int width, int regions, Rng& rng,
                 const std::string& what, int channels = 3) {
  DecodeOptions options;
  options.channels = channels;
  for (const int denominator : {1, 2, 4, 8}) {
    const int rows = divided(height, denominator);
    const int columns = divided(width, denominator);
    for (int i = 0; i <= regions; ++i) {
      const Rect region = i == 0 ? Rect{0, 0, rows, columns} : random_region(rows, columns, rng);
      ASSERT_EQ(pair.difference(bytes, {denominator, region}, true, options), "")
          << what << " 1/" << denominator << " " << region.width << "x" << region.height << "+"
          << region.left << "+" << region.top;
    }
  }
}

/// All that the library takes: of three components with 10 blocks an MCU, those whose factors
/// divide each other.
std::vector<std::array<int, 6>> all_factors() {
  std::vector<std::array<int, 6>> all;
  for (int i = 0; i < 4096; ++i) {
    std::array<int, 6> factors{};
    for (int j = 0, rest = i; j < 6; ++j, rest /= 4)
      factors[static_cast<std::size_t>(j)] = 1 + rest % 4;
    const int blocks = factors[0] * factors[1] + factors[2] * factors[3] + factors[4] * factors[5];
    const int across = std::max({factors[0], factors[2], factors[4]});
    const int down = std::max({factors[1], factors[3], factors[5]});
    bool whole = blocks <= 10;
    for (std::size_t j = 0; j < 6; j += 2)
      whole = whole && across % factors[j] == 0 && down % factors[j + 1] == 0;
    if (whole) all.push_back(factors);
  }
  return all;
}

TEST(JpegPixels, OfEverySamplingFactor) {
  JpegPair pair;
  Rng rng(5, 0, 0);
  const auto factors = all_factors();
  ASSERT_GT(factors.size(), 100U);
  for (const auto& f : factors) {
    for (int i = 0; i < scaled(1); ++i) {
      const int height = 1 + below(rng, 90);
      const int width = 1 + below(rng, 90);
      const JpegOptions options{.quality = 60 + below(rng, 40),
                                .restart_interval = below(rng, 3) == 0 ? 1 + below(rng, 5) : 0,
                                .factors = f};
      std::string what = std::to_string(width) + "x" + std::to_string(height);
      for (const int factor : f) what += " " + std::to_string(factor);
      expect_same(pair, make_jpeg(make_pixels(height, width, 3, rng.next_u32()), options), height,
                  width, 2, rng, what);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(JpegPixels, OfEverySmallSize) {
  JpegPair pair;
  Rng rng(6, 0, 0);
  for (int height = 1; height <= 34; height += 1 + below(rng, 3)) {
    for (int width = 1; width <= 34; ++width) {
      for (const int kind : {0, 1, 2, 3, 4}) {
        JpegOptions options{.quality = 1 + below(rng, 100)};
        options.horizontal = kind == 1 || kind == 2 ? 2 : 1;
        options.vertical = kind == 2 || kind == 3 ? 2 : 1;
        const int channels = kind == 4 ? 1 : 3;
        const Bytes bytes =
            make_jpeg(make_pixels(height, width, channels, rng.next_u32()), options);
        expect_same(
            pair, bytes, height, width, 1, rng,
            std::to_string(width) + "x" + std::to_string(height) + " kind " + std::to_string(kind));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(JpegPixels, OfEveryQualityAndRestartInterval) {
  JpegPair pair;
  Rng rng(7, 0, 0);
  for (int quality = 1; quality <= 100; ++quality) {
    for (int i = 0; i < scaled(1); ++i) {
      const int height = 60 + below(rng, 60);
      const int width = 60 + below(rng, 60);
      const JpegOptions options{.quality = quality,
                                .horizontal = 1 + below(rng, 2),
                                .vertical = 1 + below(rng, 2),
                                .restart_interval = below(rng, 30)};
      const Bytes bytes = make_jpeg(make_pixels(height, width, 3, rng.next_u32()), options);
      expect_same(pair, bytes, height, width, 3, rng, "quality " + std::to_string(quality));
      expect_same(pair, bytes, height, width, 1, rng, "gray of color", 1);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(JpegPixels, OfGrayAndRgbFiles) {
  JpegPair pair;
  Rng rng(8, 0, 0);
  for (int i = 0; i < scaled(20); ++i) {
    const int height = 1 + below(rng, 100);
    const int width = 1 + below(rng, 100);
    const Bytes gray = make_jpeg(make_pixels(height, width, 1, rng.next_u32()));
    expect_same(pair, gray, height, width, 3, rng, "gray");
    expect_same(pair, gray, height, width, 3, rng, "gray as gray", 1);
    const Bytes rgb = make_jpeg(make_pixels(height, width, 3, rng.next_u32()), {.rgb = true});
    expect_same(pair, rgb, height, width, 3, rng, "RGB");
    if (HasFatalFailure()) return;
  }
}

TEST(JpegPixels, AreThoseOfEveryTarget) {
  std::string targets;
  test::for_each_target([&](const std::string& name) {
    targets += name + " ";
    JpegPair pair;
    Rng rng(9, 0, 0);
    for (int i = 0; i < scaled(12); ++i) {
      const int height = 1 + below(rng, 120);
      const int width = 1 + below(rng, 150);
      const JpegOptions options{.quality = 30 + below(rng, 71),
                                .horizontal = 1 + i % 2,
                                .vertical = 1 + i / 2 % 2,
                                .restart_interval = i % 3 == 0 ? 4 : 0};
      const Bytes bytes =
          make_jpeg(make_pixels(height, width, i % 5 == 4 ? 1 : 3, rng.next_u32()), options);
      expect_same(pair, bytes, height, width, 3, rng, name);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
  RecordProperty("targets", targets);
}

/// Photographs: every file whole, and regions of it. Real ones have tables of their own.
void expect_photographs_same(const std::vector<Bytes>& files) {
  JpegPair pair;
  Rng rng(10, 0, 0);
  const Counts before = counts();
  std::size_t number = 0;
  for (const Bytes& bytes : files) {
    ASSERT_EQ(pair.difference_of_all(bytes, false), "") << number;
    for (int i = 0; i < scaled(2); ++i) {
      const auto plan = [&](const image::ImageInfo& info) -> DecodePlan {
        const int denominator = 1 << (i % 4 == 3 ? 1 + below(rng, 3) : 0);
        return {denominator, random_region(divided(info.size.height, denominator),
                                           divided(info.size.width, denominator), rng)};
      };
      DecodePlan chosen;
      const auto decoder = image::make_jpeg_decoder();
      test::decode(*decoder, bytes,
                   [&](const image::ImageInfo& info) { return chosen = plan(info); });
      ASSERT_EQ(pair.difference(bytes, chosen, false), "") << number;
    }
    ++number;
  }
  const Counts after = counts();
  const double times = Lanes::supported() ? 2 : 1;
  const auto files_own = static_cast<double>(after.own - before.own) / times /
                         static_cast<double>(1 + static_cast<unsigned>(scaled(2)));
  EXPECT_GE(files_own, 0.99 * static_cast<double>(files.size()));
}

TEST(JpegPixels, OfPhotographs) {
  const std::string folder = test::data_path("imagenet-sample");
  PENSTOCK_NEED_DATA(folder);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> files;
  for (std::size_t i = 0; i<paths.size(); i += scaled(1)> 1 ? 1 : 5)
    files.push_back(test::read_bytes(paths[i]));
  expect_photographs_same(files);
}

/// More than there are lanes, which take others when they end.
TEST(JpegPixels, OfManyAtOnce) {
  const auto library = image::make_jpeg_decoder();
  test::for_each_target([&](const std::string& name) {
    const auto decoder = make_decoder();
    Rng rng(12, 0, 0);
    for (int round = 0; round < scaled(1); ++round) {
      std::vector<Bytes> files;
      std::vector<DecodePlan> plans;
      std::vector<test::Keeper> keepers;
      for (int i = 0; i < 70; ++i) {
        const int height = 1 + below(rng, 250);
        const int width = 1 + below(rng, 250);
        const JpegOptions options{.quality = 20 + below(rng, 81),
                                  .horizontal = 1 + below(rng, 2),
                                  .vertical = 1 + below(rng, 2),
                                  .restart_interval = i % 3 == 0 ? 1 + below(rng, 60) : 0};
        files.push_back(
            make_jpeg(make_pixels(height, width, i % 7 == 0 ? 1 : 3, rng.next_u32()), options));
        const int denominator = i % 2 == 0 ? 1 : 1 << below(rng, 4);
        plans.push_back({denominator, random_region(divided(height, denominator),
                                                    divided(width, denominator), rng)});
        keepers.emplace_back([plan = plans.back()](const image::ImageInfo&) { return plan; });
      }
      std::vector<image::DecodeJob> jobs;
      for (std::size_t i = 0; i < files.size(); ++i) jobs.push_back({files[i], &keepers[i]});
      const std::uint64_t before = counts().own;
      decoder->decode(jobs, {});
      EXPECT_EQ(counts().own - before, files.size()) << name;
      for (std::size_t i = 0; i < files.size(); ++i) {
        const test::DecodeOutcome expected =
            test::decode(*library, files[i], [&](const image::ImageInfo&) { return plans[i]; });
        ASSERT_TRUE(jobs[i].status.ok());
        ASSERT_EQ(keepers[i].pixels().values, expected.pixels.values) << name << " " << i;
      }
    }
  });
}

TEST(JpegPixels, OfMadeUpPhotographs) {
  std::vector<Bytes> files;
  for (int i = 0; i < 12; ++i)
    files.push_back(
        make_jpeg(make_pixels(200 + 13 * i, 300 - 7 * i, 3, static_cast<std::uint64_t>(i)),
                  {.quality = 75 + 2 * i, .horizontal = 1 + i % 2, .vertical = 1 + i % 2}));
  expect_photographs_same(files);
}

}  // namespace pixels_test
}  // namespace penstock::jpeg
