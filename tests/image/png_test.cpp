#include "pipeline/image/png.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/codec/exif.h"
#include "pipeline/image/decoders.h"
#include "tests/support/decoding.h"
#include "tests/support/images.h"

namespace penstock::image {
namespace {

using test::all;
using test::decode;
using test::DecodeOutcome;
using test::make_pixels;
using test::make_png;
using test::Pixels;
using test::PngOptions;
using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;

/// Packs samples of `depth` bits (16: the sample in the high byte, noise in the low one).
std::vector<std::uint8_t> packed(const Pixels& image, int depth) {
  std::vector<std::uint8_t> rows;
  for (int y = 0; y < image.height; ++y) {
    std::uint32_t bits = 0;
    int count = 0;
    for (int i = 0; i < image.width * image.channels; ++i) {
      const std::uint8_t value = image.at(y, 0)[i];
      if (depth == 16) {
        rows.push_back(value);
        rows.push_back(static_cast<std::uint8_t>(200 + i));
      } else {
        bits = bits << depth | static_cast<std::uint32_t>(value >> (8 - depth));
        count += depth;
        if (count == 8) {
          rows.push_back(static_cast<std::uint8_t>(bits));
          bits = 0;
          count = 0;
        }
      }
    }
    if (count > 0) rows.push_back(static_cast<std::uint8_t>(bits << (8 - count)));
  }
  return rows;
}

struct Kind {
  int color_type;
  int depth;
  int channels;
};

const Kind kKinds[] = {{PNG_COLOR_TYPE_GRAY, 1, 1},        {PNG_COLOR_TYPE_GRAY, 2, 1},
                       {PNG_COLOR_TYPE_GRAY, 4, 1},        {PNG_COLOR_TYPE_GRAY, 8, 1},
                       {PNG_COLOR_TYPE_GRAY, 16, 1},       {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 2},
                       {PNG_COLOR_TYPE_GRAY_ALPHA, 16, 2}, {PNG_COLOR_TYPE_RGB, 8, 3},
                       {PNG_COLOR_TYPE_RGB, 16, 3},        {PNG_COLOR_TYPE_RGB_ALPHA, 8, 4},
                       {PNG_COLOR_TYPE_RGB_ALPHA, 16, 4},  {PNG_COLOR_TYPE_PALETTE, 1, 1},
                       {PNG_COLOR_TYPE_PALETTE, 2, 1},     {PNG_COLOR_TYPE_PALETTE, 4, 1},
                       {PNG_COLOR_TYPE_PALETTE, 8, 1}};

/// What the decoder should make of it: RGB, or gray.
Pixels expected_of(const Pixels& image, const Kind& kind) {
  const bool gray = (kind.color_type & PNG_COLOR_MASK_COLOR) == 0;
  Pixels out{image.height, image.width, gray ? 1 : 3, {}};
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const std::uint8_t* pixel = image.at(y, x);
      if (kind.color_type == PNG_COLOR_TYPE_PALETTE) {
        const int index = pixel[0] >> (8 - kind.depth);
        for (const int value : {index * 7, 255 - index, index * 31}) {
          out.values.push_back(static_cast<std::uint8_t>(value));
        }
        continue;
      }
      for (int c = 0; c < out.channels; ++c) {
        const int most = (1 << kind.depth) - 1;
        out.values.push_back(
            kind.depth < 8 ? static_cast<std::uint8_t>((pixel[c] >> (8 - kind.depth)) * 255 / most)
                           : pixel[c]);
      }
    }
  }
  return out;
}

TEST(Png, EveryKindWholeAndInParts) {
  const std::unique_ptr<Decoder> decoder = make_png_decoder();
  for (const Kind& kind : kKinds) {
    for (const bool interlaced : {false, true}) {
      for (const bool transparent : {false, true}) {
        const bool alpha = (kind.color_type & PNG_COLOR_MASK_ALPHA) != 0;
        if (alpha && transparent) continue;
        const Pixels image = make_pixels(19, 23, kind.channels);
        const Bytes bytes = make_png(19, 23, packed(image, kind.depth),
                                     {kind.color_type, kind.depth, interlaced, transparent});
        const std::string what =
            "type " + std::to_string(kind.color_type) + " depth " + std::to_string(kind.depth);
        const DecodeOutcome whole = decode(*decoder, bytes, all);
        ASSERT_TRUE(whole.status.ok()) << what << whole.status.error().what();
        const Pixels expected = expected_of(image, kind);
        ASSERT_EQ(whole.info.channels, expected.channels) << what;
        ASSERT_EQ(whole.pixels.values, expected.values) << what;
        EXPECT_FALSE(whole.info.scalable);
        const Rect region{3, 5, 11, 9};
        const auto plan = [&](const ImageInfo&) { return DecodePlan{1, region}; };
        const DecodeOutcome part = decode(*decoder, bytes, plan);
        ASSERT_EQ(test::difference(expected, part.pixels, region), "") << what;
      }
    }
  }
}

TEST(Png, GrayOfColor) {
  const std::unique_ptr<Decoder> decoder = make_png_decoder();
  const Pixels image = make_pixels(9, 11, 3);
  const DecodeOutcome got =
      decode(*decoder, make_png(9, 11, packed(image, 8)), all, {.channels = 1});
  ASSERT_TRUE(got.status.ok());
  for (std::size_t i = 0; i < 99; ++i) {
    const std::uint8_t* p = image.values.data() + 3 * i;
    ASSERT_NEAR(got.pixels.values[i], 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2], 0.51);
  }
}

TEST(PngFaults, TruncatedAtEveryLengthAndFlippedBits) {
  const std::unique_ptr<Decoder> decoder = make_png_decoder();
  for (const bool interlaced : {false, true}) {
    const Pixels image = make_pixels(16, 20, 3);
    const Bytes bytes = make_png(16, 20, packed(image, 8), {.interlaced = interlaced});
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      const DecodeOutcome outcome = decode(*decoder, cut, all);
      ASSERT_FALSE(outcome.status.ok()) << size;
      EXPECT_THAT(outcome.status.error().cause(), HasSubstr("PNG"));
    }
    DecodeOptions options;
    options.limits.max_pixels = 1'000'000;
    options.limits.max_codec_bytes = 32U << 20;
    // Every chunk has a checksum, so that every flip in one is seen.
    for (std::size_t bit = 8 * 8; bit < 8 * bytes.size(); bit += 3) {
      Bytes damaged = bytes;
      damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      const DecodeOutcome outcome = decode(*decoder, damaged, all, options);
      ASSERT_FALSE(outcome.status.ok()) << bit;
    }
    EXPECT_TRUE(decode(*decoder, bytes, all).status.ok());
  }
}

TEST(Png, OrientationOnlyWhereAskedFor) {
  const std::unique_ptr<Decoder> decoder = make_png_decoder();
  const PngOptions options{.exif = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0,
                                    3,   0,   0, 0,  1, 0, 8, 0, 0, 0, 0, 0,    0}};
  const Bytes bytes = make_png(8, 9, packed(make_pixels(8, 9, 3), 8), options);
  EXPECT_EQ(decode(*decoder, bytes, all).info.orientation, 1);
  EXPECT_EQ(decode(*decoder, bytes, all, {.orient = true}).info.orientation, 8);
}

TEST(PngFaults, OrientationOfHostileChunks) {
  const Bytes bytes = make_png(8, 9, packed(make_pixels(8, 9, 3), 8),
                               {.exif = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3,
                                         0,   1,   0,  0, 0, 6, 0, 0, 0, 0, 0,    0, 0}});
  ASSERT_EQ(png_orientation(bytes), 6);
  constexpr std::size_t kExif = 33;  // behind the signature and IHDR
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(png_orientation(cut), size < kExif + 12 + 26 ? 1 : 6) << size;
  }
  for (std::size_t bit = 0; bit < 32; ++bit) {  // of the length: nothing is found, or the same
    Bytes damaged = bytes;
    damaged[kExif + bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const int orientation = png_orientation(damaged);
    EXPECT_TRUE(orientation == 1 || orientation == 6) << bit;
  }
  Bytes huge = bytes;
  for (std::size_t i = 0; i < 4; ++i) huge[kExif + i] = std::byte{0xff};
  EXPECT_EQ(png_orientation(huge), 1);
}

TEST(Png, RegionBeyondTheImage) {
  const std::unique_ptr<Decoder> decoder = make_png_decoder();
  const Bytes bytes = make_png(8, 9, packed(make_pixels(8, 9, 3), 8));
  const auto plan = [](const ImageInfo&) { return DecodePlan{1, {0, 0, 9, 9}}; };
  EXPECT_EQ(decode(*decoder, bytes, plan).status.error().code(), ErrorCode::internal);
}

TEST(PngFaults, Limits) {
  const std::unique_ptr<Decoder> decoder = make_png_decoder();
  const Bytes bytes = make_png(10, 10, packed(make_pixels(10, 10, 3), 8));
  DecodeOptions options;
  options.limits.max_pixels = 99;
  const DecodeOutcome pixels = decode(*decoder, bytes, all, options);
  ASSERT_FALSE(pixels.status.ok());
  EXPECT_EQ(pixels.status.error().code(), ErrorCode::out_of_range);
  options.limits.max_pixels = 100;
  EXPECT_TRUE(decode(*decoder, bytes, all, options).status.ok());
  options.limits.max_codec_bytes = 300;
  const DecodeOutcome memory = decode(*decoder, bytes, all, options);
  ASSERT_FALSE(memory.status.ok());
  EXPECT_THAT(memory.status.error().cause(), HasSubstr("max_codec_bytes"));
}

TEST(Decoders, ByContentAndEachOnItsOwn) {
  const Bytes jpeg = test::make_jpeg(make_pixels(8, 9, 3));
  const Bytes png = make_png(8, 9, packed(make_pixels(8, 9, 3), 8));
  const Bytes other(30, std::byte{'G'});
  const Bytes none;
  Decoders decoders;
  std::vector<test::Keeper> keepers;
  for (int i = 0; i < 6; ++i) keepers.emplace_back(all);
  std::vector<DecodeJob> jobs = {{png, &keepers[0]},  {jpeg, &keepers[1]}, {other, &keepers[2]},
                                 {none, &keepers[3]}, {jpeg, &keepers[4]}, {png, &keepers[5]}};
  const DecoderStats before = decoder_stats();
  decoders.decode(jobs, {});
  EXPECT_EQ(decoder_stats().jpeg, before.jpeg + 2);
  EXPECT_EQ(decoder_stats().png, before.png + 2);
  for (const std::size_t good : {0, 1, 4, 5}) {
    EXPECT_TRUE(jobs[good].status.ok());
    EXPECT_EQ(keepers[good].pixels().height, 8);
  }
  EXPECT_THAT(jobs[2].status.error().cause(), HasSubstr("neither a JPEG nor a PNG"));
  EXPECT_THAT(jobs[3].status.error().cause(), HasSubstr("empty"));
}

}  // namespace
}  // namespace penstock::image
