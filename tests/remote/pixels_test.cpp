// Images that a worker sends as planes of u8: their values in the run are those of a run alone, to
// the bit.
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

#include "pipeline/image/finish.h"
#include "pipeline/remote/pixels.h"
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

TEST_P(PixelsOfFloats, ValuesOfPlanes) {
  const Case& one = GetParam();
  const Shape shape = one.layout == Layout::hwc ? Shape({one.height, one.width, one.channels})
                                                : Shape({one.channels, one.height, one.width});
  const Pixels pixels(one.format(), shape);
  EXPECT_EQ(pixels.count(), made_.size());
  EXPECT_EQ(pixels.planes(), Shape({one.channels, one.height, one.width}));
  std::vector<std::byte> planes(made_.size());
  const auto channels = static_cast<std::size_t>(one.channels);
  const std::size_t area = made_.size() / channels;
  for (std::size_t i = 0; i < made_.size(); ++i) {
    const std::size_t to = one.layout == Layout::hwc ? i % channels * area + i / channels : i;
    planes[to] = static_cast<std::byte>(made_[i]);
  }
  std::vector<std::byte> values(values_.size());
  pixels.finish(planes.data(), values.data());
  EXPECT_EQ(values, values_);
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

constexpr std::size_t kImages = 240;
constexpr double kPixels = kImages * 24 * 32 * 3;

Tensor drawn(std::int64_t number) {
  Tensor pixels = Tensor::allocate(DType::u8, Shape({24, 32, 3}));
  std::minstd_rand random(static_cast<unsigned>(number + 1));
  for (std::uint8_t& pixel : pixels.mutable_values<std::uint8_t>())
    pixel = static_cast<std::uint8_t>(random() >> 8);
  return pixels;
}

/// Two images for each number, of u8.
Dataset pairs() {
  const Shape shape({24, 32, 3});
  return range(kImages).map(
      [](const Element& e) {
        const auto number = e["value"].item<std::int64_t>();
        Element out;
        out.set("left", drawn(number));
        out.set("right", drawn(number + 1000));
        out.set("label", Tensor::scalar(number % 10));
        return out;
      },
      {.name = "draw",
       .output = Spec({{"left", DType::u8, shape},
                       {"right", DType::u8, shape},
                       {"label", DType::i64, Shape()}})});
}

ImageOps floats(const char* component, DType dtype = DType::f32, Layout layout = Layout::hwc) {
  NormalizeOptions normalize;
  normalize.dtype = dtype;
  normalize.layout = layout;
  return image_ops(component).random_flip().normalize(normalize);
}

struct Came {
  std::vector<std::string> batches;
  std::uint64_t bytes = 0;
};

Came run(const Dataset& dataset, const RunOptions& options) {
  Came came;
  Iterator iterator = dataset.iterate(options);
  while (Next next = iterator.next()) {
    std::string& batch = came.batches.emplace_back();
    for (std::size_t c = 0; c < next->size(); ++c)
      batch.append(reinterpret_cast<const char*>((*next)[c].data()), (*next)[c].nbytes());
  }
  for (const WorkerStats& worker : iterator.stats().workers) came.bytes += worker.unpacked_bytes;
  return came;
}

struct Graph {
  const char* name;
  Dataset (*make)();
  double bytes;  ///< of a value of both images, without labels
};

/// What is sent of graphs in which image ops come last, and of others.
const Graph kGraphs[] = {
    {"both_images",
     [] { return pairs().map(floats("left")).map(floats("right", DType::f16, Layout::chw)); }, 2},
    {"one_of_two", [] { return pairs().map(floats("right", DType::bf16)); }, 2},
    {"two_ops_of_one_image",
     [] { return pairs().map(image_ops("left").random_flip()).map(floats("left")); }, 2},
    {"without_the_other",
     [] {
       return pairs().map(floats("left")).map(floats("right")).keep({"label", "right"});
     },
     1},
    {"in_other_places",
     [] {
       return pairs()
           .map(floats("left"))
           .map(floats("right", DType::f16))
           .keep({"right", "label", "left"});
     },
     2},
    {"u8_alone", [] { return pairs().map(image_ops("left").random_flip()); }, 2},
    {"changed_later",
     [] {
       return pairs()
           .map(floats("left"))
           .map(
               [](Element e) {
                 for (float& value : e["left"].mutable_values<float>()) value *= 1.5F;
                 return e;
               },
               {.name = "half as much again"});
     },
     5},
};

TEST(SentImages, BytesAndValues) {
  const penstock::test::TimeLimit limit(60);
  for (const Graph& graph : kGraphs) {
    SCOPED_TRACE(graph.name);
    const Dataset dataset = graph.make().batch(8);
    RunOptions options{.seed = 5, .threads = 1};
    const Came alone = run(dataset, options);
    for (const std::uint64_t cache_bytes : {std::uint64_t{0}, std::uint64_t{64} << 20}) {
      penstock::test::LoopWorkers workers(dataset, 1, 1, cache_bytes);
      options.workers = workers.options(0);
      const Came came = run(dataset, options);
      EXPECT_EQ(came.batches, alone.batches);
      EXPECT_NEAR(static_cast<double>(came.bytes) / kPixels, graph.bytes, 0.02);
    }
    options.workers = {};
  }
}

}  // namespace
}  // namespace penstock::remote
