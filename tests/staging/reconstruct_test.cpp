// Images finished on a device are those of the host.
#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/dataset.h>
#include <penstock/reconstruct.h>
#include <penstock/rng.h>
#include <penstock/sources.h>

#include "pipeline/jpeg/records/make.h"
#include "tests/staging/batches.h"
#include "tests/staging/beds.h"
#include "tests/staging/reconstruct_on.h"
#include "tests/support/data.h"
#include "tests/support/decoding.h"
#include "tests/support/image_records.h"
#include "tests/support/images.h"
#include "tests/support/jpeg_coefficients.h"

namespace penstock {
namespace {

using test::Bytes;
using test::cases;
using test::make_jpeg;
using test::make_pixels;
using test::plan_of;
using test::Reconstruct;
using test::record_of;
using test::records;
using test::run_op;

std::vector<ImageOps> chains(const DecodeOptions& options) {
  const ImageOps image = decode_image("image", options);
  return {
      image.random_resized_crop(32).random_flip().normalize(),
      image.random_resized_crop(7, 61, {.min_scale = 0.01}).random_flip(),
      image.resize(40, 24).random_flip(1).cast(DType::u8, Layout::chw),
      image.resize(150, 200)
          .random_pad_crop(140, 150, 9)
          .random_flip()
          .normalize({.dtype = DType::f16, .layout = Layout::hwc}),
      image.resize_short(48).center_crop(40, 40).normalize({.dtype = DType::bf16}),
      image.center_crop(64, 65).random_flip(1),
      image.random_pad_crop(1, 3, 5).random_flip().cast(DType::f32, Layout::hwc),
      image.resize(16, 16).random_pad_crop(8, 9, 30).normalize(),
      image.resize(3, 300),  // of hundreds of rows, hardly shrunk
  };
}

TEST_P(Reconstruct, EveryImageByEveryChain) {
  for (const int channels : {3, 1}) {
    std::size_t packed = 0;
    std::size_t number = 0;
    for (const ImageOps& ops : chains({.channels = channels})) {
      packed += expect_same(ops, records(), 100 + number,
                            "chain " + std::to_string(number) + " of " + std::to_string(channels));
      ++number;
      if (HasFailure()) return;
    }
    EXPECT_EQ(packed, number * (cases().size() - (channels == 3 ? 0 : 1)));
  }
}

TEST_P(Reconstruct, EverySizeFromOnePixelUp) {
  Rng rng(11, 0, 0);
  std::vector<Bytes> images;
  for (int i = 0; i < 160; ++i) {
    const int height = 1 + static_cast<int>(rng.below(i < 80 ? 20 : 150));
    const int width = 1 + static_cast<int>(rng.below(i < 80 ? 20 : 150));
    const int factors = static_cast<int>(rng.below(4));
    images.push_back(
        record_of(make_jpeg(make_pixels(height, width, rng.below(5) == 0 ? 1 : 3, rng.next_u64()),
                            {.quality = 1 + static_cast<int>(rng.below(100)),
                             .horizontal = 1 + factors % 2,
                             .vertical = 1 + factors / 2})));
  }
  const ImageOps image = decode_image();
  EXPECT_EQ(expect_same(image.random_resized_crop(13, 9, {.min_scale = 0.001}).random_flip(),
                        images, 1, "small crops"),
            images.size());
  EXPECT_EQ(expect_same(image.resize(5, 6), images, 2, "shrunk"), images.size());
  EXPECT_EQ(expect_same(image.center_crop(30, 31).random_flip(), images, 3, "as they are"),
            images.size());
}

TEST_P(Reconstruct, EveryScale) {
  const ImageOps ops = decode_image().random_resized_crop(60, {.min_scale = 0.01}).random_flip();
  const std::vector<Bytes> images(100, records()[19]);
  EXPECT_EQ(expect_same(ops, images, 5, "scales"), images.size());
  std::array<int, 9> scales{};
  for (const WorkItem& item : run_op(ops.on_device(), images, 5))
    ++scales[static_cast<std::size_t>(plan_of(item.element).denominator)];
  for (const std::size_t scale : {1U, 2U, 4U, 8U}) EXPECT_GT(scales[scale], 0) << scale;
}

TEST_P(Reconstruct, ImagesForTheHost) {
  const Bytes plain = make_jpeg(make_pixels(60, 80, 3));
  const Bytes gray = make_jpeg(make_pixels(30, 20, 1));
  const std::vector<Bytes> images{
      plain,
      record_of(plain, jpeg::RecordKind::indexed),
      make_jpeg(make_pixels(60, 80, 3), {.progressive = true}),
      gray,
      Bytes(10, std::byte{'x'}),
      {},
      make_jpeg(make_pixels(40, 40, 4)),
  };
  const ImageOps ops = decode_image().random_resized_crop(32).random_flip();
  EXPECT_EQ(expect_same(ops.normalize(), images, 1, "others"), 0U);
  EXPECT_EQ(expect_same(ops.color_jitter({.brightness = 0.4, .hue = 0.1}).normalize(), records(), 1,
                        "jitter"),
            0U);
  EXPECT_EQ(expect_same(decode_image("image", {.channels = 1}).resize(9, 10).normalize(), images, 1,
                        "gray"),
            0U);
  // To be turned. A TIFF structure with one entry: orientation 6.
  constexpr unsigned char kExif[] = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                                     0x12, 1,   3,   0,   1, 0, 0,   0,   6,  0, 0, 0, 0, 0, 0, 0};
  const std::vector<Bytes> turned{
      record_of(test::with_segment(plain, JPEG_APP0 + 1, std::as_bytes(std::span(kExif))))};
  EXPECT_EQ(expect_same(decode_image("image", {.orient = true}).resize(9, 10), turned, 1, "turned"),
            0U);
  EXPECT_EQ(expect_same(decode_image().resize(9, 10), turned, 1, "as stored"), 1U);
  // Two resizes.
  EXPECT_EQ(expect_same(ops.resize(10, 10).normalize(), records(), 1, "twice"), 0U);
}

TEST_P(Reconstruct, Photographs) {
  const std::string folder = test::data_path("imagenet-sample");
  PENSTOCK_NEED_DATA(folder);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> images;
  // The kinds of host devices differ in how they copy.
  const bool few = GetParam().name.starts_with("host_");
  for (std::size_t i = 0; i < paths.size(); i += few ? 100 : 12) {
    const Bytes jpeg = test::read_bytes(paths[i]);
    jpeg::Made made = jpeg::make_record(jpeg, {.kind = jpeg::RecordKind::coefficients});
    if (!made.record.empty()) images.push_back(std::move(made.record));
  }
  EXPECT_GT(images.size(), few ? 0U : 10U);
  EXPECT_EQ(expect_same(decode_image().random_resized_crop(224).random_flip().normalize(), images,
                        9, "training"),
            images.size());
  EXPECT_EQ(expect_same(decode_image().resize_short(256).center_crop(224, 224).normalize(), images,
                        9, "validation"),
            images.size());
}

INSTANTIATE_TEST_SUITE_P(Devices, Reconstruct, testing::ValuesIn(test::bed_kinds()),
                         test::name_of_bed);

}  // namespace
}  // namespace penstock
