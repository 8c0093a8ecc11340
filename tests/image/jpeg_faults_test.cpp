// FAULTS: what bad JPEGs are answered with. Run under the sanitizers too.

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/image/decoders.h"
#include "pipeline/jpeg/turbo/turbo.h"
#include "tests/support/decoding.h"
#include "tests/support/figure.h"
#include "tests/support/images.h"
#include "tests/support/jpeg_damage.h"
#include "tests/support/sanitizer.h"

namespace penstock::image {
namespace {

using test::all;
using test::decode;
using test::DecodeOutcome;
using test::make_jpeg;
using test::make_pixels;
using test::Verdict;
using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;

/// Files of each kind, small enough to be damaged thousands of times.
std::map<std::string, Bytes> good_files() {
  std::map<std::string, Bytes> files;
  files["baseline 4:2:0"] = make_jpeg(make_pixels(33, 45, 3), {.horizontal = 2, .vertical = 2});
  files["baseline 4:4:4 with restarts"] =
      make_jpeg(make_pixels(30, 40, 3), {.restart_interval = 2});
  files["progressive"] = make_jpeg(make_pixels(33, 45, 3), {.horizontal = 2, .progressive = true});
  files["gray"] = make_jpeg(make_pixels(30, 31, 1));
  files["cmyk"] = make_jpeg(make_pixels(20, 25, 4));
  files["arithmetic"] = make_jpeg(make_pixels(24, 24, 3), {.arithmetic = true});
  return files;
}

/// Refuses what asks for more than a million pixels, so that no damaged header makes the test slow.
DecodeOptions small_options(bool strict = true) {
  DecodeOptions options{.strict = strict};
  options.limits.max_pixels = 1'000'000;
  options.limits.max_codec_bytes = 16U << 20;
  return options;
}

void expect_refused(const Bytes& bytes, ErrorCode code, const std::string& text,
                    const DecodeOptions& options = {}) {
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  const DecodeOutcome outcome = decode(*decoder, bytes, all, options);
  ASSERT_FALSE(outcome.status.ok()) << text;
  EXPECT_EQ(name_of(outcome.status.error().code()), name_of(code));
  EXPECT_THAT(outcome.status.error().cause(), HasSubstr(text));
}

TEST(JpegFaults, TruncatedAtEveryLength) {
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  for (const auto& [name, bytes] : good_files()) {
    const DecodeOutcome whole = decode(*decoder, bytes, all);
    ASSERT_TRUE(whole.status.ok()) << name;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      const DecodeOutcome outcome = decode(*decoder, cut, all);
      ASSERT_FALSE(outcome.status.ok()) << name << " cut to " << size;
      EXPECT_EQ(outcome.status.error().code(), ErrorCode::data_loss);
      // Lenient: an image of the full size, or an error; the same each time.
      const DecodeOutcome lenient = decode(*decoder, cut, all, small_options(false));
      if (!lenient.status.ok()) continue;
      ASSERT_EQ(lenient.pixels.values.size(), whole.pixels.values.size());
      ASSERT_EQ(decode(*decoder, cut, all, small_options(false)).pixels.values,
                lenient.pixels.values);
    }
    // The decoder is none the worse for it.
    EXPECT_EQ(decode(*decoder, bytes, all).pixels.values, whole.pixels.values) << name;
  }
}

TEST(JpegFaults, FlippedBits) {
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  std::vector<unsigned char> row(1 << 20);
  std::map<Verdict, int> verdicts;
  for (const auto& [name, bytes] : good_files()) {
    for (std::uint64_t i = 0; i < (test::kAddressSanitizer ? 800 : 3000); ++i) {
      Rng rng(17, i, 0);
      Bytes damaged = bytes;
      for (std::uint64_t flips = 1 + rng.below(3); flips > 0; --flips) {
        damaged[rng.below(damaged.size())] ^= static_cast<std::byte>(1 << rng.below(8));
      }
      const DecodeOutcome outcome = decode(*decoder, damaged, all, small_options());
      if (!outcome.status.ok() && outcome.status.error().code() == ErrorCode::out_of_range) {
        continue;  // a limit, which the library has not
      }
      const Verdict expected = test::plain_verdict(damaged, row.data());
      ++verdicts[expected];
      if (outcome.info.size.width == 0 && expected != Verdict::refused) {
        continue;  // a color space that we do not take
      }
      const bool kept = expected == Verdict::good || expected == Verdict::harmless;
      ASSERT_EQ(outcome.status.ok(), kept) << name << " round " << i;
      DecodeOptions all_warnings = small_options();
      all_warnings.strict_images = true;
      ASSERT_EQ(decode(*decoder, damaged, all, all_warnings).status.ok(), expected == Verdict::good)
          << name << " round " << i;
      const DecodeOutcome lenient = decode(*decoder, damaged, all, small_options(false));
      ASSERT_EQ(lenient.status.ok(), expected != Verdict::refused) << name << " round " << i;
    }
  }
  EXPECT_GT(verdicts[Verdict::good], 100);
  EXPECT_GT(verdicts[Verdict::warned], 100);
  EXPECT_GT(verdicts[Verdict::refused], 100);
  test::figure("F26",
               "flipped bits: %d decode, %d with stray bytes, %d warn, %d are refused, each as "
               "libjpeg-turbo says",
               verdicts[Verdict::good], verdicts[Verdict::harmless], verdicts[Verdict::warned],
               verdicts[Verdict::refused]);
}

TEST(JpegFaults, LenientDecoders) {
  const Bytes good = make_jpeg(make_pixels(16, 16, 3));
  Bytes cut = good;
  cut.resize(cut.size() - 10);
  Decoders decoders;
  for (const bool strict : {true, false}) {
    test::Keeper first(all), second(all);
    std::array<DecodeJob, 2> jobs = {DecodeJob{good, &first}, DecodeJob{cut, &second}};
    const DecoderStats before = decoder_stats();
    decoders.decode(jobs, {.strict = strict});
    EXPECT_TRUE(jobs[0].status.ok());
    EXPECT_EQ(jobs[0].warning, "");
    EXPECT_EQ(jobs[1].status.ok(), !strict);
    EXPECT_EQ(jobs[1].warning.empty(), strict);
    EXPECT_EQ(decoder_stats().jpeg, before.jpeg + 2);
    EXPECT_EQ(decoder_stats().warned, before.warned + (strict ? 0 : 1));
  }
}

TEST(JpegFaults, GarbageBehindAnyPrefix) {
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  for (const auto& [name, bytes] : good_files()) {
    for (std::size_t size = 2; size < bytes.size(); size += 7) {
      Bytes damaged(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      Rng rng(3, size, 0);
      for (int i = 0; i < 400; ++i) damaged.push_back(static_cast<std::byte>(rng.next_u32()));
      for (const bool strict : {true, false}) {
        const DecodeOutcome outcome = decode(*decoder, damaged, all, small_options(strict));
        if (!outcome.status.ok()) {
          ASSERT_FALSE(outcome.status.error().cause().empty());
        }
      }
    }
  }
}

TEST(JpegFaults, HugeDimensions) {
  Bytes huge = test::with_dimensions(make_jpeg(make_pixels(8, 8, 3)), 65'500, 65'500);
  // The file ends after the header: to read on is another error.
  const std::size_t scan = test::find_marker(huge, 0xda);
  huge.resize(scan + 2 +
              (std::to_integer<std::size_t>(huge[scan + 2]) << 8 |
               std::to_integer<std::size_t>(huge[scan + 3])));
  const auto start = std::chrono::steady_clock::now();
  expect_refused(huge, ErrorCode::out_of_range, "65500 x 65500");
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(decode(*make_jpeg_decoder(), huge, all).info.size.width, 0) << "a place was asked for";
  test::figure("F23", "65500 x 65500 pixels claimed: refused behind the header in %.0f us",
               std::chrono::duration<double, std::micro>(took).count());
  // Above what the library itself allows.
  expect_refused(test::with_dimensions(make_jpeg(make_pixels(8, 8, 3)), 65'535, 65'535),
                 ErrorCode::data_loss, "Maximum supported image dimension");
  expect_refused(test::with_dimensions(make_jpeg(make_pixels(8, 8, 3)), 0, 8), ErrorCode::data_loss,
                 "JPEG");
}

TEST(JpegFaults, PixelsAtTheLimitAndOneOver) {
  const Bytes bytes = make_jpeg(make_pixels(10, 10, 3));
  DecodeOptions options;
  options.limits.max_pixels = 100;
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  EXPECT_TRUE(decode(*decoder, bytes, all, options).status.ok());
  options.limits.max_pixels = 99;
  expect_refused(bytes, ErrorCode::out_of_range, "max_pixels", options);
}

TEST(JpegFaults, ScansAtTheLimitAndThousands) {
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  const Bytes legal = test::make_many_scans(33, 2);  // 1 + 33 x 3
  EXPECT_TRUE(decode(*decoder, legal, all).status.ok());
  expect_refused(test::make_many_scans(50, 1), ErrorCode::out_of_range, "more than 100 scans");
  // One scan that refines, sent again and again: a warning each, so only lenient readers get far.
  Bytes bomb = test::make_many_scans(1, 1);
  std::size_t last = 0;
  for (std::size_t i = 2; i + 1 < bomb.size(); ++i) {
    if (bomb[i] == std::byte{0xff} && bomb[i + 1] == std::byte{0xda}) last = i;
  }
  const Bytes scan(bomb.begin() + static_cast<std::ptrdiff_t>(last), bomb.end() - 2);
  bomb.resize(bomb.size() - 2);
  for (int i = 0; i < 5000; ++i) bomb.insert(bomb.end(), scan.begin(), scan.end());
  bomb.push_back(std::byte{0xff});
  bomb.push_back(std::byte{0xd9});
  const auto start = std::chrono::steady_clock::now();
  expect_refused(bomb, ErrorCode::out_of_range, "more than 100 scans", {.strict = false});
  test::figure(
      "F24", "5000 scans: refused at 100 in %.0f us",
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  expect_refused(bomb, ErrorCode::data_loss, "progress", {});
}

TEST(JpegFaults, MemoryLimit) {
  const Bytes large =
      test::with_dimensions(make_jpeg(make_pixels(16, 16, 3), {.progressive = true}), 9000, 9000);
  expect_refused(large, ErrorCode::out_of_range, "max_codec_bytes");
  DecodeOptions options{.strict = false};
  options.limits.max_codec_bytes = 1U << 20;
  expect_refused(
      test::with_dimensions(make_jpeg(make_pixels(16, 16, 3), {.progressive = true}), 800, 800),
      ErrorCode::out_of_range, "max_codec_bytes", options);
  test::figure("F25", "progressive 9000 x 9000 refused at max_codec_bytes, 800 x 800 at 1 MiB");
}

TEST(JpegFaults, WrongHeaders) {
  const Bytes good = make_jpeg(make_pixels(16, 16, 3));
  expect_refused({}, ErrorCode::data_loss, "JPEG");
  Bytes bytes = good;
  bytes[0] = std::byte{0};
  expect_refused(bytes, ErrorCode::data_loss, "Not a JPEG");
  bytes = good;
  bytes[test::find_marker(good, 0xc0) + 4] = std::byte{12};
  expect_refused(bytes, ErrorCode::data_loss, "precision");
  bytes = good;
  bytes[test::find_marker(good, 0xc0) + 1] = std::byte{0xc3};
  expect_refused(bytes, ErrorCode::data_loss, "Unsupported JPEG process");
  // A table that is too large.
  bytes = good;
  const std::size_t table = test::find_marker(good, 0xc4);
  for (std::size_t i = 0; i < 16; ++i) bytes[table + 5 + i] = std::byte{255};
  expect_refused(bytes, ErrorCode::data_loss, "Huffman");
}

/// Turns every segment of this kind into a comment.
Bytes without(Bytes bytes, int marker) {
  for (std::size_t at = test::find_marker(bytes, marker); at != 0;
       at = test::find_marker(bytes, marker)) {
    bytes[at + 1] = std::byte{0xfe};
  }
  return bytes;
}

TEST(JpegFaults, TablesOfAnEarlierImage) {
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  const Bytes good = make_jpeg(make_pixels(16, 16, 3), {.quality = 50});
  for (int i = 0; i < 200; ++i) {  // longer than the library's state is kept
    ASSERT_TRUE(decode(*decoder, good, all).status.ok());
    const DecodeOutcome outcome = decode(*decoder, without(good, 0xdb), all);
    ASSERT_FALSE(outcome.status.ok());
    EXPECT_THAT(outcome.status.error().cause(), HasSubstr("Quantization table"));
  }
  // Without Huffman tables the standard ones count, as in motion JPEG: here they are the same.
  const Bytes other = make_jpeg(make_pixels(16, 16, 3), {.progressive = true});
  ASSERT_TRUE(decode(*decoder, other, all).status.ok());
  const DecodeOutcome standard = decode(*decoder, without(good, 0xc4), all);
  ASSERT_TRUE(standard.status.ok());
  EXPECT_EQ(standard.pixels.values, decode(*decoder, good, all).pixels.values);
}

TEST(JpegFaults, BytesBehindTheRegion) {
  const std::unique_ptr<Decoder> decoder = make_jpeg_decoder();
  const Bytes good = make_jpeg(make_pixels(256, 64, 3));
  Bytes damaged = good;
  for (std::size_t i = damaged.size() / 2; i < damaged.size(); ++i) damaged[i] = std::byte{0};
  const Rect top{8, 8, 40, 40};
  const auto plan = [&](const ImageInfo&) { return DecodePlan{1, top}; };
  const DecodeOutcome part = decode(*decoder, damaged, plan);
  ASSERT_TRUE(part.status.ok()) << part.status.error().what();
  EXPECT_EQ(part.pixels.values, decode(*decoder, good, plan).pixels.values);
  EXPECT_FALSE(verify_image(damaged).ok());
  EXPECT_TRUE(verify_image(good).ok());
  // An end that is cut off is no pixel's, but every byte's.
  Bytes cut = good;
  cut.resize(cut.size() - 2);
  EXPECT_FALSE(verify_image(cut).ok());
}

}  // namespace
}  // namespace penstock::image
