// What the steps of a chain of image ops make of an image.
#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/image.h>

#include "pipeline/image/adjust.h"
#include "pipeline/image/augment.h"
#include "pipeline/image/chain.h"
#include "pipeline/image/orient.h"
#include "pipeline/image/resize.h"
#include "tests/image/op_results.h"
#include "tests/support/data.h"
#include "tests/support/errors.h"
#include "tests/support/images.h"
#include "tests/support/sanitizer.h"

namespace penstock {
namespace {

using image::Axis;
using image::Rect;
using image::Size;
using test::Bytes;
using test::bytes_tensor;
using test::decode_jpeg_plainly;
using test::make_jpeg;
using test::make_pixels;
using test::Pixels;
using test::run;

Tensor pixels_tensor(const Pixels& image) {
  return Tensor::of<std::uint8_t>({image.height, image.width, image.channels}, image.values);
}

Tensor result_of(const ImageOps& ops, Tensor input, std::uint64_t ordinal = 1) {
  WorkItem item = run(ops.op(), std::move(input), ordinal);
  if (!item.status.ok()) throw item.status.error();
  return item.element["image"];
}

std::vector<std::uint8_t> values_of(const ImageOps& ops, Tensor input, std::uint64_t ordinal = 1) {
  return result_of(ops, std::move(input), ordinal).to_vector<std::uint8_t>();
}

Pixels cropped(const Pixels& image, const Rect& part) {
  Pixels out{part.height, part.width, image.channels, {}};
  for (int y = part.top; y < part.top + part.height; ++y) {
    for (int x = part.left; x < part.left + part.width; ++x) {
      const bool inside = y >= 0 && x >= 0 && y < image.height && x < image.width;
      for (int c = 0; c < image.channels; ++c) {
        out.values.push_back(inside ? image.at(y, x)[c] : std::uint8_t{0});
      }
    }
  }
  return out;
}

Pixels mirrored(const Pixels& image) {
  Pixels out = image;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      std::memcpy(const_cast<std::uint8_t*>(out.at(y, x)), image.at(y, image.width - 1 - x),
                  static_cast<std::size_t>(image.channels));
    }
  }
  return out;
}

/// A resize of the box [top, bottom) x [left, right) of an image.
Pixels resized(const Pixels& image, const std::array<double, 4>& box, Size to) {
  image::Resizer resizer;
  const Axis rows{image.height, box[0], box[1], to.height, 0, to.height, false};
  const Axis columns{image.width, box[2], box[3], to.width, 0, to.width, false};
  resizer.begin(rows, columns, image.channels);
  Pixels out{to.height, to.width, image.channels, {}};
  std::vector<std::uint8_t> row(static_cast<std::size_t>(image.width * image.channels) +
                                image::kRowPadding);
  for (int y = resizer.rows().span_begin(); y < resizer.rows().span_end(); ++y) {
    const int first = resizer.columns().span_begin();
    std::memcpy(row.data(), image.at(y, first),
                static_cast<std::size_t>((image.width - first) * image.channels));
    resizer.push(row.data());
    for (auto got = resizer.pop(); got.values != nullptr; got = resizer.pop()) {
      for (int x = 0; x < to.width; ++x) {
        for (int c = 0; c < image.channels; ++c) out.values.push_back(got.plane(c)[x]);
      }
    }
  }
  return out;
}

Pixels resized(const Pixels& image, Size to) {
  return resized(image, {0, 1.0 * image.height, 0, 1.0 * image.width}, to);
}

Rng step_rng(std::uint64_t ordinal, const ImageOps::Step::Any& step, std::size_t occurrence = 0) {
  const image::StepRandom random(Rng(1, ordinal, 0), ordinal);
  return random.of(step.index(), occurrence);
}

bool flips(std::uint64_t ordinal) {
  return step_rng(ordinal, RandomFlipStep()).coin(0.5);
}

TEST(ImageOps, DecodesTheWholeImage) {
  const Bytes jpeg = make_jpeg(make_pixels(31, 45, 3), {.horizontal = 2, .vertical = 2});
  const Tensor got = result_of(decode_image(), bytes_tensor(jpeg));
  EXPECT_EQ(got.shape(), Shape({31, 45, 3}));
  EXPECT_EQ(got.to_vector<std::uint8_t>(), decode_jpeg_plainly(jpeg).values);
}

TEST(ImageOps, GrayImages) {
  const Bytes jpeg = make_jpeg(make_pixels(31, 45, 1));
  const Pixels gray = decode_jpeg_plainly(jpeg);
  EXPECT_EQ(values_of(decode_image(), bytes_tensor(jpeg)), test::as_rgb(gray).values);
  const Tensor one = result_of(decode_image("image", {.channels = 1}), bytes_tensor(jpeg));
  EXPECT_EQ(one.shape(), Shape({31, 45, 1}));
  EXPECT_EQ(one.to_vector<std::uint8_t>(), gray.values);
  const Tensor small = result_of(decode_image().resize(20, 30), bytes_tensor(jpeg));
  EXPECT_EQ(small.to_vector<std::uint8_t>(), test::as_rgb(resized(gray, {20, 30})).values);
}

TEST(ImageOps, RandomResizedCropFlipNormalize) {
  // Sizes at which each of the scales 1, 1/2, 1/4 and 1/8 is chosen.
  for (const int side : {40, 90, 200, 420}) {
    const Bytes jpeg = make_jpeg(make_pixels(side, side + 13, 3), {.horizontal = 2});
    const NormalizeOptions normal;
    for (std::uint64_t ordinal = 0; ordinal < 12; ++ordinal) {
      const Size size{side, side + 13};
      Rng rng = step_rng(ordinal, RandomResizedCropStep());
      const Rect crop = image::choose_random_resized_crop(size, {}, rng);
      int scale = 1;
      while (scale < 8 && crop.height >= 2 * scale * 32 && crop.width >= 2 * scale * 32) scale *= 2;
      const Pixels whole = decode_jpeg_plainly(jpeg, scale);
      const Rect part{crop.top / scale, crop.left / scale, 0, 0};
      const int bottom = (crop.top + crop.height + scale - 1) / scale;
      const int right = (crop.left + crop.width + scale - 1) / scale;
      const Pixels source =
          cropped(whole, {part.top, part.left, bottom - part.top, right - part.left});
      const double top = 1.0 * crop.top / scale - part.top;
      const double left = 1.0 * crop.left / scale - part.left;
      Pixels expected = resized(
          source, {top, top + 1.0 * crop.height / scale, left, left + 1.0 * crop.width / scale},
          {32, 32});
      if (flips(ordinal)) expected = mirrored(expected);

      const ImageOps ops = decode_image().random_resized_crop(32).random_flip();
      EXPECT_EQ(values_of(ops, bytes_tensor(jpeg), ordinal), expected.values) << side;
      const Tensor tensor = result_of(ops.normalize(), bytes_tensor(jpeg), ordinal);
      ASSERT_EQ(tensor.shape(), Shape({3, 32, 32}));
      const std::span<const float> values = tensor.values<float>();
      for (std::size_t i = 0; i < 32 * 32; ++i) {
        for (std::size_t c = 0; c < 3; ++c) {
          const double level = expected.values[3 * i + c] / 255.0;
          ASSERT_NEAR(values[c * 1024 + i], (level - normal.mean[c]) / normal.deviation[c], 1e-6);
        }
      }
    }
  }
}

TEST(ImageOps, CropsBeforeAnAddedFlip) {
  const Bytes jpeg = make_jpeg(make_pixels(60, 70, 3));
  for (std::uint64_t ordinal = 0; ordinal < 20; ++ordinal) {
    const ImageOps crop = decode_image().random_pad_crop(40, 40, 4);
    const Tensor plain = result_of(crop, bytes_tensor(jpeg), ordinal);
    const Pixels expected{40, 40, 3, plain.to_vector<std::uint8_t>()};
    const auto wanted = flips(ordinal) ? mirrored(expected).values : expected.values;
    EXPECT_EQ(values_of(crop.random_flip(), bytes_tensor(jpeg), ordinal), wanted);
  }
}

TEST(ImageOps, ShortSideThenCenterCrop) {
  const Bytes jpeg = make_jpeg(make_pixels(75, 100, 3));
  const Pixels small = resized(decode_jpeg_plainly(jpeg), {64, 85});
  const Pixels expected = cropped(small, {4, 14, 56, 56});  // 14.5: to even
  EXPECT_EQ(values_of(decode_image().resize_short(64).center_crop(56, 56), bytes_tensor(jpeg)),
            expected.values);
}

TEST(ImageOps, CropsAndPads) {
  const Bytes jpeg = make_jpeg(make_pixels(32, 32, 3), {.horizontal = 2, .vertical = 2});
  const Pixels whole = decode_jpeg_plainly(jpeg);
  EXPECT_EQ(values_of(decode_image().crop(3, 5, 20, 22).crop(2, 1, 7, 9), bytes_tensor(jpeg)),
            cropped(whole, {5, 6, 7, 9}).values);
  EXPECT_EQ(values_of(decode_image().center_crop(50, 40), bytes_tensor(jpeg)),
            cropped(whole, {-9, -4, 50, 40}).values);
  for (std::uint64_t ordinal = 0; ordinal < 30; ++ordinal) {
    Rng rng = step_rng(ordinal, RandomPadCropStep());
    const Rect crop = image::choose_random_pad_crop({32, 32}, {32, 32}, 40, rng);
    Pixels expected = cropped(whole, crop);  // often nothing but padding
    if (flips(ordinal)) expected = mirrored(expected);
    const ImageOps ops = decode_image().random_pad_crop(32, 32, 40).random_flip();
    ASSERT_EQ(values_of(ops, bytes_tensor(jpeg), ordinal), expected.values) << ordinal;
  }
}

TEST(ImageOps, SeveralResizesAndPadding) {
  const Bytes jpeg = make_jpeg(make_pixels(60, 80, 3));
  const Pixels whole = decode_jpeg_plainly(jpeg);
  const Pixels once = resized(whole, {40, 50});
  const ImageOps ops =
      decode_image().resize(40, 50).center_crop(44, 60).resize(30, 33).resize(9, 8);
  const Pixels padded = cropped(once, {-2, -5, 44, 60});
  EXPECT_EQ(values_of(ops, bytes_tensor(jpeg)), resized(resized(padded, {30, 33}), {9, 8}).values);
}

TEST(ImageOps, ColorJitterBetweenSteps) {
  const ColorJitterOptions jitter{0.4, 0.4, 0.4, 0.1};
  for (const int channels : {1, 3}) {
    const Bytes jpeg = make_jpeg(make_pixels(50, 61, channels));
    Pixels start = decode_jpeg_plainly(jpeg);
    for (std::uint64_t ordinal = 0; ordinal < 6; ++ordinal) {
      Pixels expected = resized(start, {30, 40});
      if (channels == 1) expected = test::as_rgb(expected);
      Rng rng = step_rng(ordinal, ColorJitterStep());
      const image::Adjustments chosen = image::choose_adjustments(jitter, rng);
      const std::size_t count = 30 * 40;
      const std::size_t stride = 1216;
      std::vector<std::uint8_t> planes(3 * stride);
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t c = 0; c < 3; ++c) planes[c * stride + i] = expected.values[3 * i + c];
      }
      image::adjust({planes.data(), count, stride, 3}, chosen.all());
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t c = 0; c < 3; ++c) expected.values[3 * i + c] = planes[c * stride + i];
      }
      const ImageOps ops = decode_image().resize(30, 40).color_jitter(jitter);
      EXPECT_EQ(values_of(ops, bytes_tensor(jpeg), ordinal), expected.values);
      const Pixels flipped = flips(ordinal) ? mirrored(expected) : expected;
      EXPECT_EQ(values_of(ops.random_flip(), bytes_tensor(jpeg), ordinal), flipped.values);
      EXPECT_EQ(values_of(ops.random_flip().crop(1, 2, 20, 30).resize(7, 11), bytes_tensor(jpeg),
                          ordinal),
                resized(cropped(flipped, {1, 2, 20, 30}), {7, 11}).values);
    }
  }
}

TEST(ImageOps, OrientationBeforeOtherSteps) {
  const Pixels made = make_pixels(41, 57, 3);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    Bytes jpeg = make_jpeg(made, {.horizontal = 2, .vertical = 2});
    const Pixels stored = decode_jpeg_plainly(jpeg);
    const unsigned char exif[] = {
        0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0,
        'M',  'M',  0, 42, 0,   0,   0,   8,   0, 1,
        1,    0x12, 0, 3,  0,   0,   0,   1,   0, static_cast<unsigned char>(orientation),
        0,    0,    0, 0,  0,   0};
    const auto* first = reinterpret_cast<const std::byte*>(exif);
    jpeg.insert(jpeg.begin() + 2, first, first + sizeof(exif));
    const image::Turn turn(orientation);
    const Size size = turn.apply({41, 57});
    Pixels seen{size.height, size.width, 3, stored.values};
    std::vector<std::uint8_t> plane(41 * 57), turned(41 * 57);
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t i = 0; i < plane.size(); ++i) plane[i] = stored.values[3 * i + c];
      image::turn_plane(plane.data(), {41, 57}, turn, turned.data());
      for (std::size_t i = 0; i < plane.size(); ++i) seen.values[3 * i + c] = turned[i];
    }
    const ImageOps ops = decode_image("image", {.orient = true});
    EXPECT_EQ(values_of(decode_image(), bytes_tensor(jpeg)), stored.values);
    EXPECT_EQ(result_of(ops, bytes_tensor(jpeg)).shape(), Shape({size.height, size.width, 3}));
    EXPECT_EQ(values_of(ops, bytes_tensor(jpeg)), seen.values) << orientation;
    EXPECT_EQ(values_of(ops.crop(3, 4, 30, 31), bytes_tensor(jpeg)),
              cropped(seen, {3, 4, 30, 31}).values);
    EXPECT_EQ(values_of(ops.resize(30, 33), bytes_tensor(jpeg)), resized(seen, {30, 33}).values);
    // Shrunk by 4 while decoding: the stored corner decides how, so compare with a full decode.
    const Tensor shrunk = result_of(ops.crop(1, 2, 40, 39).resize(9, 8), bytes_tensor(jpeg));
    const Pixels exact = resized(cropped(seen, {1, 2, 40, 39}), {9, 8});
    const auto got = shrunk.to_vector<std::uint8_t>();
    double off = 0;
    for (std::size_t i = 0; i < got.size(); ++i) off += std::abs(got[i] - exact.values[i]);
    EXPECT_LT(off / static_cast<double>(got.size()), 8) << orientation;
  }
}

TEST(ImageOps, DecodedPixels) {
  for (const int channels : {1, 3}) {
    const Pixels image = make_pixels(30, 40, channels);
    EXPECT_EQ(values_of(image_ops().resize(13, 17), pixels_tensor(image)),
              resized(image, {13, 17}).values);
    EXPECT_EQ(values_of(image_ops().crop(1, 2, 10, 20), pixels_tensor(image)),
              cropped(image, {1, 2, 10, 20}).values);
    // A strided view.
    const Tensor view = pixels_tensor(image).slice(1, 3, 33);
    EXPECT_EQ(values_of(image_ops().resize(13, 17), view),
              resized(cropped(image, {0, 3, 30, 30}), {13, 17}).values);
  }
}

TEST(ImageOps, CropsAndFlipsBehindNormalize) {
  const Bytes jpeg = make_jpeg(make_pixels(20, 20, 3));
  const Tensor before =
      result_of(decode_image().random_flip().crop(1, 2, 9, 8).normalize(), bytes_tensor(jpeg));
  const Tensor after =
      result_of(decode_image().normalize().random_flip().crop(1, 2, 9, 8), bytes_tensor(jpeg));
  EXPECT_EQ(before.to_vector<float>(), after.to_vector<float>());
}

TEST(ImageOps, RealPhotographsOnEveryKindOfDestination) {
  const std::string folder = test::data_path("imagenet-sample");
  PENSTOCK_NEED_DATA(folder);
  const WorkOpPtr op = decode_image().random_resized_crop(64).op();
  std::uint64_t ordinal = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (ordinal++ % 4 > 0 && test::kAddressSanitizer) continue;  // takes long
    const Bytes bytes = test::read_bytes(entry.path());
    const WorkItem item = run(op, bytes_tensor(bytes), ordinal);
    ASSERT_TRUE(item.status.ok()) << entry.path() << " " << item.status.error().what();
    ASSERT_EQ(item.element["image"].shape(), Shape({64, 64, 3}));
  }
  EXPECT_EQ(ordinal, 300U);
}

}  // namespace
}  // namespace penstock
