// Image ops as work ops: specs, fingerprints, rows, and what they refuse.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/image.h>

#include "pipeline/image/chain.h"
#include "pipeline/image/resize.h"
#include "tests/image/op_results.h"
#include "tests/support/context.h"
#include "tests/support/errors.h"
#include "tests/support/images.h"

namespace penstock {
namespace {

using test::Bytes;
using test::bytes_tensor;
using test::make_jpeg;
using test::make_pixels;
using test::run;
using ::testing::HasSubstr;

TEST(ImageOps, WritesStraightIntoItsRow) {
  const Bytes jpeg = make_jpeg(make_pixels(50, 60, 3));
  for (const auto& ops :
       {decode_image().random_resized_crop(24).random_flip().normalize(),
        decode_image().random_resized_crop(24), decode_image().resize(20, 21).color_jitter({0.5}),
        decode_image().center_crop(70, 30).cast(DType::f16, Layout::chw)}) {
    const WorkOpPtr op = ops.op();
    const Spec spec = op->infer(Spec({{"image", DType::bytes, Shape()}}));
    ASSERT_TRUE(spec.is_fixed_size());
    const std::size_t stride =
        static_cast<std::size_t>(spec[0].shape.volume()) * size_of(spec[0].dtype);
    std::vector<std::byte> slot(3 * stride, std::byte{0xcd});
    std::byte* base = slot.data();
    test::HeapContext context;
    WorkItem item;
    item.ordinal = 4;
    item.element = Element({{"image", bytes_tensor(jpeg)}});
    item.row = Row(&base, &stride, 1);
    op->run({&item, 1}, context);
    ASSERT_TRUE(item.status.ok());
    EXPECT_EQ(context.allocations, 0U);
    const Tensor& written = item.element["image"];
    EXPECT_EQ(written.data(), base + stride);
    EXPECT_EQ(spec.mismatch(item.element), "");
    const WorkItem apart = run(op, bytes_tensor(jpeg), 4);
    EXPECT_EQ(std::memcmp(apart.element["image"].data(), base + stride, stride), 0);
    for (std::size_t i = 0; i < stride; ++i) {
      ASSERT_EQ(slot[i], std::byte{0xcd});
      ASSERT_EQ(slot[2 * stride + i], std::byte{0xcd});
    }
  }
}

TEST(ImageOps, BadItem) {
  const Bytes good = make_jpeg(make_pixels(20, 20, 3));
  Bytes cut = good;
  cut.resize(cut.size() / 2);
  const Bytes none;
  const WorkOpPtr op = decode_image().resize(8, 8).op();
  std::vector<WorkItem> items(5);
  const Bytes* inputs[] = {&good, &cut, &none, &good, &good};
  for (std::size_t i = 0; i < 5; ++i) {
    items[i].element = Element({{"label", Tensor::scalar<std::int64_t>(static_cast<int>(i))},
                                {"image", bytes_tensor(*inputs[i])}});
  }
  items[3].status = Status(ErrorCode::user, "failed before");
  test::HeapContext context;
  op->run(items, context);
  EXPECT_TRUE(items[0].status.ok());
  EXPECT_THAT(items[1].status.error().cause(), HasSubstr("JPEG"));
  EXPECT_THAT(items[2].status.error().cause(), HasSubstr("empty"));
  EXPECT_EQ(items[3].status.error().cause(), "failed before");
  EXPECT_EQ(items[3].element["image"].dtype(), DType::bytes);
  EXPECT_TRUE(items[4].status.ok());
  EXPECT_EQ(items[4].element["image"].to_vector<std::uint8_t>(),
            items[0].element["image"].to_vector<std::uint8_t>());
  EXPECT_EQ(items[4].element["label"].item<std::int64_t>(), 4);
}

TEST(ImageOps, ItemWithoutTheComponent) {
  const Tensor pixels = Tensor::of<std::uint8_t>({1, 2, 1}, {1, 2});
  const Bytes jpeg = make_jpeg(make_pixels(20, 20, 3));
  for (const bool decodes : {true, false}) {
    const ImageOps ops = decodes ? decode_image().resize(8, 8) : image_ops().resize(8, 8);
    const Tensor image = decodes ? bytes_tensor(jpeg) : pixels;
    std::vector<WorkItem> items(3);
    items[0].element = items[2].element = Element({{"image", image}});
    items[1].element = Element({{"other", image}});
    test::HeapContext context;
    ops.op()->run(items, context);
    EXPECT_TRUE(items[0].status.ok());
    EXPECT_EQ(items[1].status.error().code(), ErrorCode::not_found);
    EXPECT_TRUE(items[2].status.ok()) << items[2].status.error().what();
  }
}

TEST(ImageOps, ImagesTooSmallOrTooLargeForAStep) {
  const Bytes jpeg = make_jpeg(make_pixels(4, 60, 3));
  const auto cause = [&](const ImageOps& ops) {
    return run(ops.op(), bytes_tensor(jpeg)).status.error().cause();
  };
  EXPECT_THAT(cause(decode_image().crop(0, 0, 5, 5)), HasSubstr("of an image of 4x60"));
  EXPECT_THAT(cause(decode_image().random_pad_crop(30, 30, 4)), HasSubstr("padded by 4"));
  EXPECT_THAT(cause(decode_image().resize_short(60'000)), HasSubstr("max_pixels"));
}

TEST(ImageOps, SpecsOfSteps) {
  const Spec input({{"label", DType::i64, Shape()}, {"image", DType::bytes, Shape()}});
  const auto shape = [&](const ImageOps& ops) { return ops.op()->infer(input)[1].shape; };
  EXPECT_EQ(shape(decode_image()), Shape({-1, -1, 3}));
  EXPECT_EQ(shape(decode_image("image", {.channels = 1}).resize_short(8)), Shape({-1, -1, 1}));
  EXPECT_EQ(shape(decode_image().resize(5, 6).resize_short(10)), Shape({10, 12, 3}));
  EXPECT_EQ(shape(decode_image().random_resized_crop(9).normalize()), Shape({3, 9, 9}));
  EXPECT_EQ(shape(decode_image().resize(8, 9).center_crop(3, 4)), Shape({3, 4, 3}));
  const Spec out = decode_image().random_resized_crop(9).normalize().op()->infer(input);
  EXPECT_EQ(out.to_string(), "{label: i64 [], image: f32 [3,9,9]}");
}

TEST(ImageOps, InvalidGraphs) {
  using test::expect_error;
  const auto infer = [](const ImageOps& ops, ComponentSpec component) {
    ops.op()->infer(Spec({std::move(component)}));
  };
  const auto code = ErrorCode::invalid_argument;
  expect_error(ErrorCode::not_found, "image", [&] {
    infer(decode_image(), {"jpg", DType::bytes, Shape()});
  });
  expect_error(code, "\"image\" to decode must be bytes [] and not yet batched, in {image: u8 [2]}",
               [&] {
                 infer(decode_image(), {"image", DType::u8, Shape({2})});
               });
  expect_error(code, "{image: u8 [?,?,4]}", [&] {
    infer(image_ops(), {"image", DType::u8, Shape({-1, -1, 4})});
  });
  expect_error(code, "reaches beyond an image of 10x10", [&] {
    infer(image_ops().crop(5, 5, 6, 5), {"image", DType::u8, Shape({10, 10, 3})});
  });
  expect_error(code, "random_resized_crop", [] { decode_image().random_resized_crop(0); });
  expect_error(code, "scales", [] { decode_image().random_resized_crop(5, {.min_scale = 0}); });
  expect_error(code, "ratios", [] { decode_image().random_resized_crop(5, {.max_ratio = 0.1}); });
  expect_error(code, "resize", [] { decode_image().resize(-1, 5); });
  expect_error(code, "crop", [] { decode_image().crop(-1, 0, 5, 5); });
  expect_error(code, "probability", [] { decode_image().random_flip(1.5); });
  expect_error(code, "more than 256 steps", [] {
    ImageOps ops = decode_image();
    for (int i = 0; i < 1'000'000; ++i) ops = ops.random_flip();
  });
  expect_error(code, "hue", [] { decode_image().color_jitter({.hue = 0.6}); });
  expect_error(code, "deviations", [] { decode_image().normalize({.deviation = {0, 1, 1}}); });
  expect_error(code, "u8", [] { decode_image().normalize({.dtype = DType::u8}); });
  expect_error(code, "i64", [] { decode_image().cast(DType::i64, Layout::hwc); });
  expect_error(code, "can follow", [] { decode_image().normalize().resize(5, 5); });
  expect_error(code, "can follow", [] { decode_image().normalize().normalize(); });
  expect_error(code, "channels", [] { decode_image("image", {.channels = 2}); });
}

TEST(ImageOps, NamesAndFingerprints) {
  const ImageOps ops = decode_image().random_resized_crop(224).random_flip().normalize();
  EXPECT_EQ(ops.op()->name(), "image(decode,random_resized_crop 224,flip,normalize)");
  EXPECT_TRUE(ops.op()->random());
  EXPECT_FALSE(decode_image().resize(2, 3).op()->random());
  const auto text = [](const ImageOps& chain) {
    Description description;
    chain.op()->describe(description);
    std::string all;
    for (const auto& [key, value] : description.entries()) all += key + "=" + value + ";";
    return all;
  };
  std::vector<std::string> texts = {
      text(ops),
      text(decode_image().random_resized_crop(224, {.min_scale = 0.1})),
      text(decode_image("other")),
      text(image_ops()),
      text(decode_image("image", {.orient = true})),
      text(decode_image().random_flip(0.4)),
      text(decode_image().random_flip()),
      text(decode_image().normalize({.dtype = DType::bf16})),
      text(decode_image().normalize()),
      text(decode_image().color_jitter({.hue = 0.1})),
      text(decode_image().crop(1, 1, 2, 2)),
      text(decode_image().crop(1, 2, 2, 2)),
      text(decode_image().resize_short(2))};
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::unique(texts.begin(), texts.end()), texts.end());
}

}  // namespace
}  // namespace penstock
