// Pixels of floats, taken back and finished again: the values that images are made with, to the
// bit.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/penstock.h>

#include "pipeline/remote/pixels.h"
#include "pipeline/work/image/finish.h"
#include "tests/remote/loop_workers.h"
#include "tests/support/time_limit.h"

namespace penstock::remote {
namespace {

using image::OutputFormat;

struct Case {
  const char* name;
  DType dtype;
  Layout layout;
  int channels;
  int width, height;
  std::array<float, 3> scale{1, 1, 1};
  std::array<float, 3> bias{0, 0, 0};

  OutputFormat format() const { return {dtype, layout, channels, scale, bias}; }
  std::size_t count() const { return static_cast<std::size_t>(width * height * channels); }
  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

constexpr std::array<float, 3> kScale{0.017124753F, 0.017507003F, 0.017429193F};
constexpr std::array<float, 3> kBias{-2.117904F, -2.0357144F, -1.8044444F};

class PixelsOfFloats : public testing::TestWithParam<Case> {
 protected:
  PixelsOfFloats()
      : values_(GetParam().count() * size_of(GetParam().dtype)), made_(GetParam().count()) {
    std::minstd_rand random(7);
    for (std::uint8_t& pixel : made_) pixel = static_cast<std::uint8_t>(random() >> 8);
    // All of them occur, where there is room.
    for (std::size_t i = 0; i < std::min<std::size_t>(256 * 3, made_.size()); ++i)
      made_[i] = static_cast<std::uint8_t>(i / 3);
    finish_as_images_are(made_, values_);
  }

  /// By the kernels that write images, a row at a time. Pixels are in the order of their values.
  static void finish_as_images_are(const std::vector<std::uint8_t>& pixels,
                                   std::vector<std::byte>& values) {
    const Case& one = GetParam();
    const auto width = static_cast<std::size_t>(one.width);
    const auto channels = static_cast<std::size_t>(one.channels);
    const std::size_t area = width * static_cast<std::size_t>(one.height);
    const std::size_t bytes = size_of(one.dtype);
    std::vector<std::uint8_t> planes(width * channels);
    for (std::size_t y = 0; y < static_cast<std::size_t>(one.height); ++y) {
      for (std::size_t x = 0; x < width; ++x)
        for (std::size_t c = 0; c < channels; ++c)
          planes[c * width + x] = one.layout == Layout::hwc ? pixels[(y * width + x) * channels + c]
                                                            : pixels[c * area + y * width + x];
      const std::size_t at = one.layout == Layout::hwc ? y * width * channels : y * width;
      image::row_kernels(one.dtype).finish({planes.data(), width}, one.width, one.format(),
                                           values.data() + at * bytes, area * bytes);
    }
    image::finish_image();
  }

  std::vector<std::byte> values_;
  std::vector<std::uint8_t> made_;
};

TEST_P(PixelsOfFloats, AreTakenBackAndFinishedToTheBit) {
  const Pixels pixels(GetParam().format(), GetParam().count(), true);
  std::vector<std::uint8_t> taken(made_.size());
  ASSERT_TRUE(pixels.take_back(values_.data(), taken.data()));
  if (GetParam().dtype == DType::f32) {
    EXPECT_EQ(taken, made_);
  }
  const Pixels other_side(GetParam().format(), GetParam().count(), false);
  std::vector<std::byte> again(values_.size());
  other_side.finish(taken.data(), again.data());
  EXPECT_EQ(again, values_);
}

TEST_P(PixelsOfFloats, AreNotTakenBackFromOtherValues) {
  const Pixels pixels(GetParam().format(), GetParam().count(), true);
  std::vector<std::uint8_t> taken(made_.size());
  const std::size_t bytes = size_of(GetParam().dtype);
  // The lowest bit of the mantissa, which has no meaning to a pixel; the sign; and what is no
  // number.
  for (const std::size_t at : {std::size_t{0}, made_.size() / 2, made_.size() - 1}) {
    for (const int change : {0, 1, 2}) {
      std::vector<std::byte> other = values_;
      std::byte* const value = other.data() + at * bytes;
      if (change == 0 && bytes == 4) value[0] ^= std::byte{1};
      if (change == 1) value[bytes - 1] ^= std::byte{0x81};
      if (change == 2) std::memset(value, 0xff, bytes);
      if (other == values_) continue;
      EXPECT_FALSE(pixels.take_back(other.data(), taken.data())) << at << ", change " << change;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Remote, PixelsOfFloats,
    testing::Values(Case{"f32", DType::f32, Layout::hwc, 3, 37, 19, kScale, kBias},
                    Case{"f32_planes", DType::f32, Layout::chw, 3, 37, 19, kScale, kBias},
                    Case{"f32_gray", DType::f32, Layout::chw, 1, 50, 50, kScale, kBias},
                    Case{"f32_as_they_are", DType::f32, Layout::hwc, 3, 16, 16},
                    Case{"f32_backwards", DType::f32, Layout::hwc, 1, 29, 9, {-0.5F}, {127}},
                    Case{"one_value", DType::f32, Layout::hwc, 1, 1, 1, kScale, kBias},
                    Case{"f16", DType::f16, Layout::hwc, 3, 37, 19, kScale, kBias},
                    Case{"bf16_planes", DType::bf16, Layout::chw, 3, 37, 19, kScale, kBias},
                    Case{"bf16_gray", DType::bf16, Layout::hwc, 1, 37, 19, kScale, kBias}),
    [](const auto& one) { return one.param.name; });

/// Images that are made of numbers, as floats; `then` comes behind.
Dataset images(DType dtype, bool changed) {
  NormalizeOptions normalize;
  normalize.dtype = dtype;
  Dataset dataset =
      range(240)
          .map(
              [](const Element& e) {
                const auto number = e["value"].item<std::int64_t>();
                Element out;
                out.set("pixels", Tensor::allocate(DType::u8, Shape({24, 32, 3})));
                std::minstd_rand random(static_cast<unsigned>(number + 1));
                for (std::uint8_t& pixel : out["pixels"].mutable_values<std::uint8_t>())
                  pixel = static_cast<std::uint8_t>(random() >> 8);
                return out;
              },
              {.name = "draw", .output = Spec({{"pixels", DType::u8, Shape({24, 32, 3})}})})
          .map(image_ops("pixels").random_flip().normalize(normalize));
  if (changed)
    dataset = dataset.map(
        [](Element e) {
          for (float& value : e["pixels"].mutable_values<float>()) value *= 1.5F;
          return e;
        },
        {.name = "half as much again"});
  return dataset.batch(8);
}

struct Came {
  std::vector<std::string> batches;
  std::uint64_t bytes = 0;
};

Came run(const Dataset& dataset, const RunOptions& options) {
  Came came;
  Iterator iterator = dataset.iterate(options);
  while (Next next = iterator.next()) {
    const Tensor& pixels = (*next)["pixels"];
    came.batches.emplace_back(reinterpret_cast<const char*>(pixels.data()), pixels.nbytes());
  }
  for (const WorkerStats& worker : iterator.stats().workers) came.bytes += worker.received_bytes;
  return came;
}

TEST(PixelsOnTheirWay, AreU8AndEndAsTheFloatsOfARunWithoutWorkers) {
  const penstock::test::TimeLimit limit(60);
  constexpr double kPixels = 240 * 24 * 32 * 3;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Dataset dataset = images(dtype, false);
    penstock::test::LoopWorkers workers(dataset, 1);
    RunOptions options{.seed = 5, .threads = 1};
    const Came alone = run(dataset, options);
    options.workers = workers.options(0);
    const Came came = run(dataset, options);
    EXPECT_EQ(came.batches, alone.batches) << name_of(dtype);
    EXPECT_LT(static_cast<double>(came.bytes), 1.1 * kPixels) << name_of(dtype);
  }
  // What is no pixel's value any more travels as it is.
  const Dataset dataset = images(DType::f32, true);
  penstock::test::LoopWorkers workers(dataset, 1);
  RunOptions options{.seed = 5, .threads = 1};
  const Came alone = run(dataset, options);
  options.workers = workers.options(0);
  const Came came = run(dataset, options);
  EXPECT_EQ(came.batches, alone.batches);
  EXPECT_GT(static_cast<double>(came.bytes), 4 * kPixels);
}

}  // namespace
}  // namespace penstock::remote
