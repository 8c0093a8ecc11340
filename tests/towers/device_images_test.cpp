// Training on JPEGs that the towers' devices decode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <penstock/image_codec.h>
#include <penstock/sources.h>
#include <penstock/towers/model_input.h>
#include <penstock/towers/trainer.h>

#include "tests/support/errors.h"
#include "tests/support/images.h"
#include "tests/towers/fake_gpu.h"
#include "tests/towers/twins.h"

namespace penstock::towers {
namespace {

using penstock::test::make_jpeg;
using penstock::test::make_pixels;
using penstock::test::thrown_by;

constexpr std::int64_t kImages = 20;

/// JPEGs and their labels. Devices leave one of them to the host.
Dataset labelled_jpegs() {
  std::vector<std::string> images;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < kImages; ++i) {
    auto file = make_jpeg(make_pixels(32, 32, 3, static_cast<std::uint64_t>(i)), {.quality = 95});
    if (i == 11) file.insert(file.end() - 2, std::byte{0xff});
    images.emplace_back(reinterpret_cast<const char*>(file.data()), file.size());
    labels.push_back(i % 10);
  }
  const std::vector<std::string_view> views(images.begin(), images.end());
  return tensors({{"image", Tensor::of_bytes(views)},
                  {"label", Tensor::of<std::int64_t>(Shape({kImages}), labels)}});
}

struct Course {
  std::vector<float> losses;
  std::uint64_t digest = 0;

  friend bool operator==(const Course&, const Course&) = default;
};

Course course(const std::string& names, FeedMode mode, bool on_device,
              const GpuLibraries* libraries) {
  const ModelKind& kind = model_kind("cifar10");
  const Dataset data = labelled_jpegs().shuffle();
  TrainOptions options;
  options.devices = devices(names);
  options.batch = 8 / static_cast<std::int64_t>(options.devices.size());
  options.epochs = 1;
  options.seed = 3;
  options.deterministic = true;
  options.libraries = libraries;
  options.feed.mode = mode;
  if (on_device) options.on_device = kind.images(true);
  const Dataset train =
      on_device ? model_input_on_device(kind, data, true) : model_input(kind, data, true);
  Trainer trainer(kind.make, train, model_input(kind, labelled_jpegs(), false), options);
  TrainObserver nobody;
  const TrainResult result = trainer.run(nobody);
  EXPECT_EQ(result.steps, 2);
  EXPECT_TRUE(result.evaluation);
  return {result.losses, result.digest};
}

std::uint64_t undecoded() {
  for (const auto& [why, count] : decoding_counts().on_host)
    if (why == "undecoded") return count;
  return 0;
}

TEST(DeviceImages, CourseOfTheHost) {
  const auto expect_same = [](FeedMode mode, const GpuLibraries* libraries) {
    const Course host = course("host:0:copies,host:1:copies", mode, false, libraries);
    const std::uint64_t before = decoding_counts().on_device;
    const std::uint64_t undecoded_before = undecoded();
    EXPECT_TRUE(course("host:0:copies,host:1:copies", mode, true, libraries) == host);
    EXPECT_GT(decoding_counts().on_device, before);
    EXPECT_GT(undecoded(), undecoded_before);
    if (libraries == nullptr) {
      EXPECT_TRUE(course("host:0,host:1", mode, true, libraries) == host);
    }
  };
  for (const FeedMode mode : {FeedMode::per_tower, FeedMode::split, FeedMode::sharded})
    expect_same(mode, nullptr);
  expect_same(FeedMode::per_tower, &test::fake_gpu());
}

TEST(DeviceImages, DataWithoutJpegs) {
  const Dataset pixels = tensors({{"image", Tensor::allocate(DType::u8, Shape({4, 32, 32, 3}))},
                                  {"label", Tensor::allocate(DType::i64, Shape({4}))}});
  EXPECT_THAT(
      thrown_by([&] { model_input_on_device(model_kind("cifar10"), pixels, true); })->what(),
      testing::HasSubstr("cifar10 takes image: bytes []; the data have image: u8"));
  EXPECT_THAT(thrown_by([&] { model_input_on_device(model_kind("lenet"), pixels, true); })->what(),
              testing::HasSubstr("lenet takes no images that a device could decode"));
}

}  // namespace
}  // namespace penstock::towers
