// Images that decoders warn of: decoded if no pixel is lost, and counted.
// PENSTOCK_ODD_IMAGES=FOLDER also writes them, with the pixels they have, for bench/peers/odd.py.

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/codec/exif.h"
#include "pipeline/image/decoders.h"
#include "pipeline/image/png.h"
#include "pipeline/jpeg/records/decoder.h"
#include "pipeline/jpeg/records/make.h"
#include "tests/support/decoding.h"
#include "tests/support/errors.h"
#include "tests/support/jpeg_pair.h"
#include "tests/support/log_capture.h"
#include "tests/support/odd_images.h"

namespace penstock::image {
namespace {

using test::all;
using test::OddImage;
using ::testing::HasSubstr;

struct Answer {
  Status status;
  std::string warning;
  test::Pixels pixels;
};

Answer decode_any(const test::ImageBytes& bytes, const DecodeOptions& options) {
  Decoders decoders;
  test::Keeper keeper(all);
  std::array<DecodeJob, 1> jobs = {DecodeJob{bytes, &keeper}};
  decoders.decode(jobs, options);
  return {jobs[0].status, jobs[0].warning, keeper.pixels()};
}

/// Writes an image, and its pixels as a PGM or PPM.
void write_for_peers(const OddImage& image) {
  const char* folder = std::getenv("PENSTOCK_ODD_IMAGES");
  if (folder == nullptr) return;
  const std::filesystem::path path = std::filesystem::path(folder) / image.name;
  const auto write = [](const std::filesystem::path& to, const std::string& head, const void* data,
                        std::size_t size) {
    std::ofstream out(to, std::ios::binary);
    out << head;
    out.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  };
  write(path, "", image.bytes.data(), image.bytes.size());
  const test::Pixels& pixels = image.pixels;
  const std::string size = std::to_string(pixels.width) + " " + std::to_string(pixels.height);
  write(path.string() + ".pnm", (pixels.channels == 1 ? "P5 " : "P6 ") + size + " 255\n",
        pixels.values.data(), pixels.values.size());
}

/// Returns how many of the images gave a warning.
int expect_decoded(const std::vector<OddImage>& images) {
  int warned = 0;
  for (const OddImage& image : images) {
    write_for_peers(image);
    const std::uint64_t before = decoder_stats().warned;
    const Answer got = decode_any(image.bytes, {});
    EXPECT_TRUE(got.status.ok()) << image.name << ": " << got.status.error().what();
    if (!got.status.ok()) continue;
    EXPECT_EQ(got.pixels.channels, image.pixels.channels) << image.name;
    EXPECT_TRUE(got.pixels.values == image.pixels.values) << image.name;
    EXPECT_EQ(decoder_stats().warned, before + (got.warning.empty() ? 0 : 1)) << image.name;
    const Answer strict = decode_any(image.bytes, {.strict_images = true});
    EXPECT_EQ(strict.status.ok(), got.warning.empty()) << image.name;
    EXPECT_EQ(strict.warning, "") << image.name;
    if (!strict.status.ok()) {
      EXPECT_THAT(strict.status.error().cause(), HasSubstr(got.warning));
      ++warned;
    }
  }
  return warned;
}

TEST(Warnings, OfJpegsThatLoseNoCoefficient) {
  const std::vector<OddImage> images = test::odd_jpegs();
  ASSERT_GE(images.size(), 60U);
  EXPECT_GE(expect_decoded(images), 50);
}

TEST(Warnings, OfPngsThatChangeNoPixel) {
  const std::vector<OddImage> images = test::odd_pngs();
  ASSERT_GE(images.size(), 100U);
  EXPECT_GE(expect_decoded(images), 80);
}

TEST(Warnings, OfLostPixelsAreErrors) {
  int count = 0;
  for (const OddImage& image : test::lossy_images()) {
    const Answer got = decode_any(image.bytes, {});
    EXPECT_FALSE(got.status.ok()) << image.name;
    if (got.status.ok()) continue;
    EXPECT_EQ(got.status.error().code(), ErrorCode::data_loss) << image.name;
    EXPECT_FALSE(decode_any(image.bytes, {.strict_images = true}).status.ok()) << image.name;
    ++count;
  }
  EXPECT_GE(count, 60);
}

/// Damaged coefficients can leave bytes over, which then are no stray bytes.
TEST(Warnings, OfDamagedCoefficientsAreMostlyErrors) {
  for (const std::size_t file : {0, 1, 2}) {  // those that our decoder reads
    const auto [name, good] = test::odd::jpegs()[file];
    int warned = 0;
    int decoded = 0;
    const std::size_t scan = test::odd::markers(good, 0xda).front() + 14;
    for (std::size_t bit = 8 * scan; bit < 8 * (good.size() - 2); bit += 5) {
      test::ImageBytes damaged = good;
      damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      if (decode_any(damaged, {.strict_images = true}).status.ok()) continue;  // no sign of it
      ++warned;
      if (decode_any(damaged, {}).status.ok()) ++decoded;
    }
    EXPECT_GT(warned, 100) << name;
    EXPECT_LT(decoded, warned / 2) << name;
    std::printf("%s: of %d warnings %d are no errors\n", name.c_str(), warned, decoded);
  }
}

TEST(Warnings, OfBothJpegDecodersAreTheSame) {
  test::JpegPair pair;
  std::vector<OddImage> images = test::odd_jpegs();
  for (OddImage& image : test::lossy_images())
    if (detect_format(image.bytes) == Format::jpeg) images.push_back(std::move(image));
  for (const OddImage& image : images) {
    for (const DecodeOptions& options :
         {DecodeOptions{}, DecodeOptions{.strict_images = true}, DecodeOptions{.strict = false}}) {
      EXPECT_EQ(pair.difference_of_all(image.bytes, false, options), "") << image.name;
      for (const Rect& region : {Rect{0, 3, 8, 9}, Rect{9, 5, 14, 15}, Rect{21, 0, 1, 1}})
        EXPECT_EQ(pair.difference(image.bytes, {1, region}, false, options), "") << image.name;
    }
  }
}

TEST(Warnings, DoNotKeepAFileFromBeingPacked) {
  const auto decoder = jpeg::make_record_decoder();
  for (const OddImage& image : test::odd_jpegs()) {
    for (const auto kind : {jpeg::RecordKind::coefficients, jpeg::RecordKind::indexed}) {
      const jpeg::Made made = jpeg::make_record(image.bytes, {.kind = kind});
      if (made.record.empty()) {
        // Our decoder, which an index is for, does not take this file.
        EXPECT_THAT(image.name, HasSubstr("jfif_2")) << made.why;
        continue;
      }
      const test::DecodeOutcome got = test::decode(*decoder, made.record, all);
      ASSERT_TRUE(got.status.ok()) << image.name;
      EXPECT_TRUE(got.pixels.values == image.pixels.values) << image.name;
    }
    const bool warned = !decode_any(image.bytes, {.strict_images = true}).status.ok();
    const auto error = test::thrown_by(
        [&] { static_cast<void>(jpeg::make_record(image.bytes, {.strict_images = true})); });
    EXPECT_EQ(error.has_value(), warned) << image.name;
  }
}

TEST(Warnings, AreLoggedOncePerFormat) {
  const test::LogCapture log;
  for (int i = 0; i < 3; ++i) {
    decode_any(test::odd_jpegs().front().bytes, {});
    decode_any(test::odd_pngs().front().bytes, {});
  }
  EXPECT_EQ(log.count("a JPEG is decoded in spite of a warning: Corrupt JPEG data: "), 1U);
  EXPECT_EQ(log.count("a PNG is decoded in spite of a warning: tRNS: "), 1U);
  EXPECT_EQ(log.count("--strict-images (strict_images) refuses them"), 2U);
}

TEST(Warnings, OfOneImageLeaveTheNextOneAlone) {
  const test::ImageBytes good = test::odd::jpegs().front().second;
  const test::ImageBytes odd = test::odd_jpegs()[1].bytes;
  const test::ImageBytes png = test::odd::pngs().front().bytes;
  const test::ImageBytes odd_png = test::odd_pngs().front().bytes;
  Decoders decoders;
  std::vector<test::Keeper> keepers(4, test::Keeper(all));
  std::array<DecodeJob, 4> jobs = {DecodeJob{odd, &keepers[0]}, DecodeJob{good, &keepers[1]},
                                   DecodeJob{odd_png, &keepers[2]}, DecodeJob{png, &keepers[3]}};
  decoders.decode(jobs, {});
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_TRUE(jobs[i].status.ok());
    EXPECT_EQ(jobs[i].warning.empty(), i % 2 == 1) << jobs[i].warning;
  }
}

TEST(Warnings, StrictImagesContradictsLenient) {
  test::expect_error(ErrorCode::invalid_argument, "strict_images without strict", [] {
    static_cast<void>(decode_image("image", {.strict = false, .strict_images = true}));
  });
}

TEST(Warnings, OrientationBehindStrayBytes) {
  const test::ImageBytes exif = test::odd::bytes_of(
      {"\xff\xe1\x00\x22"
       "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0",
       36});
  const test::ImageBytes good = test::odd::jpegs().front().second;
  const std::size_t at = test::odd::markers(good, 0xdb).front();
  const test::ImageBytes turned = test::odd::with(good, at, exif);
  ASSERT_EQ(jpeg_orientation(turned), 6);
  for (const std::size_t kind : {0, 1, 2})
    EXPECT_EQ(jpeg_orientation(test::odd::with(turned, at, test::odd::stray(kind))), 6) << kind;
}

TEST(Warnings, OrientationInADamagedChunk) {
  const std::string tiff("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0", 26);
  const test::ImageBytes good = test::odd::pngs().front().bytes;
  const std::size_t at = test::odd::find_chunk(good, "IDAT");
  const test::ImageBytes chunk = test::odd::chunk("eXIf", tiff);
  EXPECT_EQ(png_orientation(test::odd::with(good, at, chunk)), 6);
  EXPECT_EQ(png_orientation(test::odd::with(good, at, test::odd::with_wrong_checksum(chunk))), 1);
}

}  // namespace
}  // namespace penstock::image
