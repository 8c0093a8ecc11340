// Images made on a device, beside those that the same chain makes on the host: equal bit by bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include <penstock/dataset.h>
#include <penstock/feed.h>
#include <penstock/reconstruct.h>
#include <penstock/rng.h>
#include <penstock/sources.h>

#include "pipeline/work/image/filter.h"
#include "pipeline/work/image/on_device.h"
#include "pipeline/work/jpeg/device/plan.h"
#include "pipeline/work/jpeg/records/make.h"
#include "staging/reconstruct/twin.h"
#include "tests/staging/batches.h"
#include "tests/staging/beds.h"
#include "tests/support/context.h"
#include "tests/support/data.h"
#include "tests/support/decoding.h"
#include "tests/support/image_records.h"
#include "tests/support/images.h"
#include "tests/support/jpeg_coefficients.h"

namespace penstock {
namespace {

using test::JpegOptions;
using test::make_jpeg;
using test::make_pixels;
using Bytes = std::vector<std::byte>;

Bytes record_of(std::span<const std::byte> jpeg,
                jpeg::RecordKind kind = jpeg::RecordKind::coefficients) {
  jpeg::Made made = jpeg::make_record(jpeg, {.kind = kind});
  EXPECT_EQ(made.why, "");
  return std::move(made.record);
}

jpeg::DevicePlan plan_of(const Element& element) {
  jpeg::DevicePlan plan;
  std::memcpy(&plan, element["image_plan"].data(), sizeof(plan));
  return plan;
}

/// What the chain makes of each image.
std::vector<WorkItem> run_op(const ImageOps& ops, const std::vector<Bytes>& images,
                             std::uint64_t seed) {
  std::vector<WorkItem> items(images.size());
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::string_view text(reinterpret_cast<const char*>(images[i].data()), images[i].size());
    items[i].element = Element{{"image", Tensor::bytes(text, BufferPtr())},
                               {"label", Tensor::scalar(std::int64_t{7})}};
    items[i].index = items[i].ordinal = i;
  }
  test::HeapContext context(seed);
  ops.op()->run(items, context);
  return items;
}

class Reconstruct : public test::OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    stream_.emplace(shared(), "reconstruct");
  }
  void TearDown() override {
    for (const auto& [data, bytes] : regions_) device().deallocate(data, bytes);
    regions_.clear();
    stream_.reset();
  }

  std::byte* memory(std::size_t bytes) {
    regions_.emplace_back(device().allocate(bytes + 1), bytes + 1);
    return regions_.back().first;
  }
  std::byte* to_device(const void* data, std::size_t bytes) {
    std::byte* to = memory(bytes);
    stream_->view().copy({to, data, bytes});
    stream_->view().synchronize();
    return to;
  }

  /// What the device makes of images that `on_device` handed on; those that failed are padding.
  std::vector<std::byte> make(const ImageOps& ops, const std::vector<WorkItem>& items) {
    std::vector<std::uint64_t> offsets{0};
    std::string text;
    std::vector<jpeg::DevicePlan> plans(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].status.ok()) {
        text += items[i].element["image"].bytes_at();
        plans[i] = plan_of(items[i].element);
      }
      offsets.push_back(text.size());
    }
    const auto count = static_cast<std::int64_t>(items.size());
    Reconstructor reconstructor(shared(), count, ops);
    const DeviceTensor bytes{DType::bytes, Shape({count}),
                             to_device(offsets.data(), 8 * offsets.size()),
                             to_device(text.data(), text.size())};
    const DeviceTensor all{DType::u8, Shape({count, sizeof(jpeg::DevicePlan)}),
                           to_device(plans.data(), plans.size() * sizeof(plans[0])), nullptr};
    DeviceTensor out{reconstructor.image().dtype, reconstructor.image().shape.prepend(count),
                     nullptr, nullptr};
    out.data = memory(out.nbytes());
    reconstructor.run(*stream_, bytes, all, out);
    std::vector<std::byte> got(out.nbytes());
    stream_->view().copy({got.data(), out.data, got.size()});
    stream_->view().synchronize();
    return got;
  }

  /// Returns how many images the device made of coefficients.
  std::size_t expect_same(const ImageOps& ops, const std::vector<Bytes>& images, std::uint64_t seed,
                          const std::string& what) {
    const std::vector<WorkItem> expected = run_op(ops, images, seed);
    const std::vector<WorkItem> handed = run_op(ops.on_device(), images, seed);
    const std::vector<std::byte> got = make(ops, handed);
    const std::size_t stride = got.size() / images.size();
    std::size_t packed = 0;
    for (std::size_t i = 0; i < images.size(); ++i) {
      EXPECT_EQ(handed[i].status.ok(), expected[i].status.ok()) << what << " " << i;
      if (!expected[i].status.ok() || !handed[i].status.ok()) {
        EXPECT_EQ(handed[i].status.error().what(), std::string(expected[i].status.error().what()));
        continue;
      }
      const jpeg::DevicePlan plan = plan_of(handed[i].element);
      packed += plan.kind == jpeg::PlanKind::coefficients ? 1 : 0;
      const Tensor& image = expected[i].element["image"];
      EXPECT_EQ(image.nbytes(), stride);
      const auto* mine = got.data() + i * stride;
      const auto* theirs = image.data();
      const auto at =
          static_cast<std::size_t>(std::mismatch(mine, mine + stride, theirs).first - mine);
      EXPECT_EQ(at, stride) << what << " image " << i << ", " << plan.width << " x " << plan.height
                            << " at 1/" << plan.denominator;
      EXPECT_EQ(handed[i].element["label"].item<std::int64_t>(), 7);
    }
    return packed;
  }

  std::optional<Stream> stream_;
  std::vector<std::pair<std::byte*, std::size_t>> regions_;
};

struct Case {
  const char* name;
  int height;
  int width;
  int channels;
  JpegOptions options;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> cases{
      {"a pixel", 1, 1, 3, {}},
      {"a block", 8, 8, 3, {}},
      {"one more", 9, 9, 3, {.horizontal = 2}},
      {"one less", 15, 15, 3, {.horizontal = 2, .vertical = 2}},
      {"4:4:4", 123, 177, 3, {}},
      {"4:2:2", 123, 177, 3, {.horizontal = 2}},
      {"4:4:0", 123, 177, 3, {.vertical = 2}},
      {"4:2:0", 123, 177, 3, {.horizontal = 2, .vertical = 2}},
      {"4:1:1", 50, 133, 3, {.horizontal = 4}},
      {"4:1:0", 70, 133, 3, {.horizontal = 4, .vertical = 2}},
      {"much of the first", 131, 70, 3, {.factors = {2, 4, 1, 1, 1, 1}}},
      {"odd factors", 70, 133, 3, {.factors = {3, 1, 1, 1, 3, 1}}},
      {"gray", 77, 99, 1, {}},
      {"gray of tall MCUs", 77, 99, 1, {.horizontal = 2, .vertical = 2}},
      {"RGB", 77, 99, 3, {.rgb = true}},
      {"coarse", 123, 177, 3, {.quality = 5, .horizontal = 2, .vertical = 2}},
      {"fine", 123, 177, 3, {.quality = 100}},
      {"wide", 9, 1200, 3, {.quality = 97}},
      {"tall", 1100, 10, 3, {.horizontal = 2, .vertical = 2}},
      {"to be shrunk", 500, 700, 3, {.horizontal = 2, .vertical = 2}},
      {"to be shrunk, 4:4:4", 431, 333, 3, {}},
      {"to be shrunk, 4:2:2", 431, 333, 3, {.horizontal = 2}},
      {"to be shrunk, gray", 431, 333, 1, {}},
  };
  return cases;
}

const std::vector<Bytes>& records() {
  static const std::vector<Bytes> all = [] {
    std::vector<Bytes> records;
    for (const Case& c : cases())
      records.push_back(
          record_of(make_jpeg(make_pixels(c.height, c.width, c.channels), c.options)));
    return records;
  }();
  return all;
}

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

TEST_P(Reconstruct, EveryScaleIsUsed) {
  const ImageOps ops = decode_image().random_resized_crop(60, {.min_scale = 0.01}).random_flip();
  const std::vector<Bytes> images(100, records()[19]);
  EXPECT_EQ(expect_same(ops, images, 5, "scales"), images.size());
  std::array<int, 9> scales{};
  for (const WorkItem& item : run_op(ops.on_device(), images, 5))
    ++scales[static_cast<std::size_t>(plan_of(item.element).denominator)];
  for (const std::size_t scale : {1U, 2U, 4U, 8U}) EXPECT_GT(scales[scale], 0) << scale;
}

TEST_P(Reconstruct, WhatTheHostHasToDecode) {
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

TEST_P(Reconstruct, DamagedRecordsFailAsOnTheHost) {
  std::vector<Bytes> images;
  Rng rng(2, 0, 0);
  for (int i = 0; i < 200; ++i) {
    images.push_back(records()[static_cast<std::size_t>(4 + rng.below(8))]);
    if (i % 4 == 0) images.back()[rng.below(images.back().size())] ^= std::byte{4};
    if (i % 20 == 1) images.back().resize(images.back().size() / 2);
  }
  const ImageOps ops = decode_image().random_resized_crop(16).random_flip().normalize();
  EXPECT_GT(expect_same(ops, images, 3, "damaged"), 100U);
  const std::vector<Bytes> none(3, Bytes(images[1]));
  EXPECT_EQ(expect_same(ops, none, 3, "all damaged"), 0U);
}

TEST_P(Reconstruct, PaddingIsZeros) {
  const ImageOps ops = decode_image().resize(4, 4).normalize();
  const std::vector<Bytes> images{records()[4], records()[5]};  // which the items view
  std::vector<WorkItem> items = run_op(ops.on_device(), images, 1);
  items[1].status = Status(ErrorCode::data_loss, "left out");
  const std::vector<std::byte> got = make(ops, items);
  EXPECT_TRUE(std::any_of(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(got.size() / 2),
                          [](std::byte b) { return b != std::byte{0}; }));
  EXPECT_TRUE(std::all_of(got.begin() + static_cast<std::ptrdiff_t>(got.size() / 2), got.end(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST_P(Reconstruct, WhatDoesNotFitIsRefused) {
  const ImageOps image = decode_image();
  const auto refused = std::optional(ErrorCode::invalid_argument);
  EXPECT_EQ(test::code_of([&] { static_cast<void>(image.on_device()); }), refused);
  EXPECT_EQ(test::code_of([&] { static_cast<void>(image.resize_short(4).on_device()); }), refused);
  EXPECT_EQ(test::code_of([&] { static_cast<void>(image_ops().resize(4, 4).on_device()); }),
            refused);
  EXPECT_EQ(test::code_of([&] { Reconstructor(shared(), 0, image.resize(4, 4)); }), refused);
  EXPECT_EQ(test::code_of([&] { Reconstructor(shared(), 4, image.resize(65000, 65000)); }),
            refused);
  Reconstructor two(shared(), 2, image.resize(4, 4));
  EXPECT_EQ(two.image().shape, Shape({4, 4, 3}));
  const auto run = [&](std::int64_t rows, std::int64_t plans, const Shape& out) {
    return test::code_of([&] {
      two.run(*stream_, {DType::bytes, Shape({rows}), nullptr, nullptr},
              {DType::u8, Shape({rows, plans}), nullptr, nullptr},
              {DType::u8, out, nullptr, nullptr});
    });
  };
  constexpr std::int64_t kPlan = sizeof(jpeg::DevicePlan);
  EXPECT_EQ(run(0, kPlan, Shape({0, 4, 4, 3})), std::nullopt);
  EXPECT_EQ(run(3, kPlan, Shape({3, 4, 4, 3})), refused);
  EXPECT_EQ(run(2, kPlan, Shape({2, 3, 4, 4})), refused);
  EXPECT_EQ(run(2, kPlan - 1, Shape({2, 4, 4, 3})), refused);
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

/// One image after the other, with nothing but its own memory around it.
class Guarded {
 public:
  explicit Guarded(const ImageOps& ops) {
    const image::OutputFormat format = image::output_format(ops.chain());
    const image::Size size = image::size_on_device(ops.chain());
    batch_.height = size.height;
    batch_.width = size.width;
    batch_.channels = format.channels;
    batch_.bytes = 1;
    batch_.count = 1;
    const auto work = static_cast<std::size_t>(reconstruct::kImageWork);
    const auto out = static_cast<std::size_t>(size.height * size.width * format.channels);
    work_.assign(work + 2 * kGuard, kMark);
    out_.assign(out + 2 * kGuard, kMark);
    batch_.work = work_.data() + kGuard;
    batch_.out = out_.data() + kGuard;
  }

  void make(const jpeg::DevicePlan& plan, const std::vector<std::uint8_t>& packed) {
    const std::array<std::uint64_t, 2> offsets{0, packed.size()};
    // Memory of its own, so that a sanitizer sees a read beyond it.
    const std::vector<std::uint8_t> bytes(packed);
    const auto own = std::make_unique<jpeg::DevicePlan>(plan);
    batch_.offsets = offsets.data();
    batch_.packed = bytes.data();
    batch_.plans = own.get();
    reconstruct::run_here(batch_);
    made_ += reconstruct::image_of(batch_, 0).wanted() ? 1 : 0;
    for (const auto* memory : {&work_, &out_}) {
      const auto marked = [](std::uint8_t value) { return value == kMark; };
      ASSERT_TRUE(std::all_of(memory->begin(), memory->begin() + kGuard, marked));
      ASSERT_TRUE(std::all_of(memory->end() - kGuard, memory->end(), marked));
    }
  }
  int made() const { return made_; }

 private:
  static constexpr int kGuard = 1 << 14;
  static constexpr std::uint8_t kMark = 0xa7;
  std::vector<std::uint8_t> work_;
  std::vector<std::uint8_t> out_;
  reconstruct::Batch batch_;
  int made_ = 0;
};

TEST(ReconstructMemory, NoPlanAndNoBytesReachBeyondIt) {
  const ImageOps ops = decode_image().random_resized_crop(20, {.min_scale = 0.01}).random_flip();
  const std::vector<WorkItem> items = run_op(ops.on_device(), records(), 4);
  Guarded guarded(ops);
  Rng rng(6, 0, 0);
  const char* rounds = std::getenv("PENSTOCK_FUZZ_ROUNDS");
  const int all = rounds == nullptr ? 2500 : std::atoi(rounds);
  for (int i = 0; i < all; ++i) {
    const Element& element = items[static_cast<std::size_t>(rng.below(items.size()))].element;
    jpeg::DevicePlan plan = plan_of(element);
    const std::string_view text = element["image"].bytes_at();
    std::vector<std::uint8_t> packed(text.begin(), text.end());
    if (i % 3 == 0) packed.resize(rng.below(packed.size() + 1));
    const std::uint64_t places = rng.below(20);
    for (std::uint64_t k = 0; k < places && !packed.empty(); ++k)
      packed[rng.below(packed.size())] = static_cast<std::uint8_t>(rng.below(256));
    // Most of the plan's facts stand in front of its tables.
    auto* words = reinterpret_cast<std::int32_t*>(&plan);
    constexpr std::size_t kFacts = offsetof(jpeg::DevicePlan, quantisation) / sizeof(*words);
    constexpr std::size_t kWords = sizeof(plan) / sizeof(*words);
    for (std::uint64_t k = rng.below(4); k > 0; --k) {
      std::int32_t& word = words[rng.below(rng.coin(0.8) ? kFacts : kWords)];
      word = rng.coin(0.7) ? static_cast<std::int32_t>(rng.below(64))
                           : static_cast<std::int32_t>(rng.next_u64());
    }
    guarded.make(plan, packed);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(guarded.made(), all / 5);
  EXPECT_LT(guarded.made(), all);
}

TEST(ReconstructWeights, TheEndsOfAnAxisTellItsSpan) {
  Rng rng(8, 0, 0);
  image::Filter filter;
  for (int i = 0; i < 3000; ++i) {
    const int length = 1 + static_cast<int>(rng.below(i % 2 == 0 ? 40 : 900));
    const int denominator = 1 << rng.below(4);
    image::Axis axis = image::shrunk_axis(static_cast<int>(rng.below(500)), length, denominator,
                                          1 + static_cast<int>(rng.below(300)))
                           .axis;
    axis.first = static_cast<int>(rng.below(static_cast<std::uint64_t>(axis.out)));
    axis.count = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(axis.out - axis.first)));
    axis.mirrored = rng.coin(0.5);
    filter.build(axis, image::Precision::exact);
    const image::Span span = image::span_of(axis);
    ASSERT_EQ(span.low, filter.span_begin()) << i;
    ASSERT_EQ(span.high, filter.span_end()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Reconstruct, testing::ValuesIn(test::bed_kinds()),
                         test::name_of_bed);

}  // namespace
}  // namespace penstock
