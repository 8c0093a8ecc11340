// Damaged files: accepted, warned of and refused as libjpeg-turbo does it, with its words and
// pixels.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/images.h"
#include "tests/support/jpeg_pair.h"
#include "tests/support/malformed.h"
#include "tests/support/sanitizer.h"
#include "tests/support/simd.h"

namespace penstock::jpeg {
namespace {

using image::Rect;
using test::JpegPair;
using test::make_jpeg;
using test::make_pixels;
using Bytes = std::vector<std::byte>;

DecodeOptions small_options(bool strict) {
  DecodeOptions options{.strict = strict};
  options.limits.max_pixels = 1'000'000;
  options.limits.max_codec_bytes = 16U << 20;
  return options;
}

/// Files in which each kind of byte is a large share.
std::vector<Bytes> small_files() {
  std::vector<Bytes> files;
  files.push_back(make_jpeg(make_pixels(33, 45, 3), {.horizontal = 2, .vertical = 2}));
  files.push_back(make_jpeg(make_pixels(30, 40, 3), {.quality = 97, .restart_interval = 2}));
  files.push_back(make_jpeg(make_pixels(40, 24, 3), {.quality = 50, .vertical = 2}));
  files.push_back(make_jpeg(make_pixels(30, 31, 1), {.quality = 80}));
  return files;
}

/// Of the whole and of two regions.
void expect_same(JpegPair& pair, const Bytes& bytes, const std::string& what) {
  for (const bool strict : {true, false}) {
    DecodeOptions options = small_options(strict);
    options.strict_images = strict;
    ASSERT_EQ(pair.difference_of_all(bytes, false, options), "") << what;
    options.strict_images = false;
    ASSERT_EQ(pair.difference_of_all(bytes, false, options), "") << what;
    for (const Rect& region : {Rect{0, 3, 8, 9}, Rect{9, 5, 14, 15}, Rect{15, 0, 1, 1}})
      ASSERT_EQ(pair.difference(bytes, {1, region}, false, options), "")
          << what << " " << region.top << (strict ? "" : " lenient");
  }
}

/// AddressSanitizer looks at every third case; the release build compares all.
constexpr std::size_t kEvery = test::kAddressSanitizer ? 3 : 1;

TEST(JpegVerdicts, OfFilesCutAtEveryLength) {
  JpegPair pair;
  for (const Bytes& bytes : small_files()) {
    for (std::size_t size = 0; size < bytes.size(); size += kEvery) {
      expect_same(pair, Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)),
                  "cut to " + std::to_string(size));
      if (HasFatalFailure()) return;
    }
  }
}

/// The library takes fill bytes in front of a marker as it reads ahead, however many, and so may
/// come to the end of a file whose rows it has long had.
TEST(JpegVerdicts, OfFilesCutAndFilled) {
  JpegPair pair;
  const std::vector<std::vector<int>> ends = {{}, {0xd9}, {0x00, 0x12, 0x34}, {0x00, 0xff, 0xd9}};
  for (const Bytes& bytes : small_files()) {
    for (std::size_t size = test::find_marker(bytes, 0xda) + 14; size < bytes.size(); size += 3) {
      Bytes filled(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      filled.resize(size + 1 + size % 50, std::byte{0xff});
      for (const int byte : ends[size % ends.size()])
        filled.push_back(static_cast<std::byte>(byte));
      expect_same(pair, filled, "cut to " + std::to_string(size));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(JpegVerdicts, OfFilesWithOneByteChanged) {
  JpegPair pair;
  for (const Bytes& bytes : small_files()) {
    for (std::size_t at = 2; at < bytes.size(); at += kEvery) {
      // Another of four for each byte; all with $PENSTOCK_JPEGS.
      for (std::size_t i = 0; i < (std::getenv("PENSTOCK_JPEGS") == nullptr ? 1U : 4U); ++i) {
        constexpr std::array<int, 4> kValues = {0x00, 0xff, 0xd9, 0x5a};
        const int value = kValues[(at + i) % 4];
        Bytes changed = bytes;
        changed[at] = static_cast<std::byte>(value);
        if (test::find_marker(changed, 0xc0) == 0 && at < 20) continue;
        expect_same(pair, changed, std::to_string(at) + " = " + std::to_string(value));
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// Values far outside of what an encoder makes: the arithmetic overflows as the library's does.
TEST(JpegVerdicts, OfFilesWithHugeQuantisation) {
  test::for_each_target([](const std::string& name) {
    JpegPair pair;
    Rng rng(3, 0, 0);
    for (int i = 0; i < 60; ++i) {
      Bytes bytes = small_files()[static_cast<std::size_t>(i) % 4];
      const std::size_t tables = test::find_marker(bytes, 0xdb);
      ASSERT_NE(tables, 0U);
      for (std::size_t k = 0; k < 64; ++k)
        if (i % 3 != 0 || k == 0)
          bytes[tables + 5 + k] = static_cast<std::byte>(i % 2 == 0 ? 255 : rng.below(256));
      const int flips = i / 12;
      const std::size_t scan = test::find_marker(bytes, 0xda) + 14;
      for (int flip = 0; flip < flips; ++flip)
        bytes[scan + rng.below(bytes.size() - scan - 2)] ^=
            static_cast<std::byte>(1 << rng.below(8));
      for (const int denominator : {1, 2, 4, 8}) {
        const DecodeOptions options = small_options(false);
        ASSERT_EQ(pair.difference(bytes, {denominator, {0, 0, 3, 3}}, false, options), "")
            << name << " " << i << " 1/" << denominator;
      }
      ASSERT_EQ(pair.difference_of_all(bytes, false, small_options(false)), "") << name << " " << i;
    }
  });
}

TEST(JpegVerdicts, OfMalformedFiles) {
  JpegPair pair;
  for (const test::Malformed& file : test::malformed_jpegs(test::malformed_count(600))) {
    for (const bool strict : {true, false})
      ASSERT_EQ(pair.difference_of_all(file.bytes, false, small_options(strict)), "") << file.name;
  }
}

/// What comes behind a good scan.
TEST(JpegVerdicts, OfWhatFollowsTheScan) {
  JpegPair pair;
  const std::vector<std::vector<int>> tails = {{0xff, 0xd9, 0x00},
                                               {0xff, 0xff, 0xff, 0xd9},
                                               {0x00, 0xff, 0xd9},
                                               {0xff, 0xd0, 0xff, 0xd9},
                                               {0xff, 0xfe, 0x00, 0x04, 1, 2, 0xff, 0xd9},
                                               {0xff, 0x00, 0xff, 0xd9},
                                               {0xff, 0xd8, 0xff, 0xd9},
                                               {0xff},
                                               {}};
  for (const Bytes& bytes : small_files()) {
    for (const auto& tail : tails) {
      Bytes changed(bytes.begin(), bytes.end() - 2);
      for (const int byte : tail) changed.push_back(static_cast<std::byte>(byte));
      expect_same(pair, changed, "tail of " + std::to_string(tail.size()));
      if (HasFatalFailure()) return;
    }
  }
}

/// Sampling factors that do not divide each other, which the library takes where it needs only the
/// first component: nothing is left of the image before.
TEST(JpegVerdicts, OfFractionsOfASampleBehindAnotherImage) {
  JpegPair pair;
  Bytes odd = make_jpeg(make_pixels(40, 40, 3), {.factors = {1, 1, 2, 3, 1, 1}});
  const std::array<std::byte, 3> third{std::byte{3}, std::byte{0x11}, std::byte{1}};
  const auto factors = std::search(odd.begin(), odd.end(), third.begin(), third.end());
  ASSERT_NE(factors, odd.end());
  factors[1] = std::byte{0x12};
  const Bytes plain = make_jpeg(make_pixels(33, 45, 3), {});
  for (const int channels : {1, 3}) {
    EXPECT_EQ(pair.difference_of_all(plain, true), "");
    const DecodeOptions options{.strict = false, .channels = channels};
    EXPECT_EQ(pair.difference_of_all(odd, false, options), "");
    const test::DecodeOutcome outcome = test::decode(*make_decoder(), odd, test::all, options);
    EXPECT_EQ(outcome.pixels.height, channels == 1 ? 40 : 0);
  }
}

/// A colour image that is given up with blocks of its second and third component waiting leaves
/// nothing to a gray one, which has no such components.
TEST(JpegVerdicts, OfGrayBehindDamagedColor) {
  const Bytes color = make_jpeg(make_pixels(33, 45, 3), {.horizontal = 2, .vertical = 2});
  const Bytes gray = make_jpeg(make_pixels(30, 31, 1), {.quality = 80});
  Rng rng(19, 0, 0);
  for (const int denominator : {1, 2, 4, 8}) {
    JpegPair pair;
    const auto side = [&](int length) { return (length + denominator - 1) / denominator; };
    for (std::size_t at = color.size() * 2 / 3; at < color.size(); at += 3) {
      Bytes damaged = color;
      damaged[at] ^= static_cast<std::byte>(1 + rng.below(255));
      damaged[at + rng.below(damaged.size() - at)] = std::byte{0xff};
      const Rect region{0, side(45) / 3, side(33), side(45) - side(45) / 3};
      ASSERT_EQ(pair.difference(damaged, {denominator, region}, false, small_options(true)), "");
      ASSERT_EQ(pair.difference_of_all(gray, true), "") << at << " at 1/" << denominator;
    }
  }
}

/// A bad file beside a good one, in any order, does the good one no harm.
TEST(JpegVerdicts, OfNeighboursAreTheirOwn) {
  const auto decoder = make_decoder();
  const std::vector<Bytes> good = small_files();
  std::vector<Bytes> files;
  Rng rng(11, 0, 0);
  for (int i = 0; i < 40; ++i) {
    Bytes bytes = good[static_cast<std::size_t>(i) % good.size()];
    if (rng.coin(0.5)) bytes[bytes.size() / 2 + rng.below(bytes.size() / 3)] ^= std::byte{0x41};
    files.push_back(std::move(bytes));
  }
  std::vector<test::Keeper> keepers(files.size(), test::Keeper(test::all));
  std::vector<image::DecodeJob> jobs;
  for (std::size_t i = 0; i < files.size(); ++i) jobs.push_back({files[i], &keepers[i]});
  decoder->decode(jobs, {});
  const auto library = image::make_jpeg_decoder();
  int refused = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const test::DecodeOutcome expected = test::decode(*library, files[i], test::all);
    ASSERT_EQ(jobs[i].status.ok(), expected.status.ok()) << i;
    refused += expected.status.ok() ? 0 : 1;
    if (expected.status.ok()) {
      EXPECT_EQ(keepers[i].pixels().values, expected.pixels.values) << i;
    }
  }
  EXPECT_GT(refused, 2);
}

}  // namespace
}  // namespace penstock::jpeg
