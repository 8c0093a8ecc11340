// Damaged records, plans that lie, and what does not fit.
#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/dataset.h>
#include <penstock/reconstruct.h>
#include <penstock/rng.h>
#include <penstock/sources.h>

#include "pipeline/image/device/plan.h"
#include "pipeline/image/filter.h"
#include "pipeline/image/on_device.h"
#include "staging/reconstruct/twin.h"
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
using test::plan_of;
using test::Reconstruct;
using test::records;
using test::run_op;

TEST_P(Reconstruct, DamagedRecords) {
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

TEST_P(Reconstruct, Padding) {
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

TEST_P(Reconstruct, UnsupportedOps) {
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

TEST(ReconstructMemory, HostilePlansAndBytes) {
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

TEST(ReconstructWeights, SpanOfAnAxis) {
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
