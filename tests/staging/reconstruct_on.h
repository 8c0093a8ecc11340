// Images finished on devices of each kind, compared with those of the host.
#pragma once

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include <penstock/dataset.h>
#include <penstock/feed.h>
#include <penstock/reconstruct.h>
#include <penstock/sources.h>

#include "pipeline/image/device/plan.h"
#include "pipeline/jpeg/records/make.h"
#include "tests/staging/batches.h"
#include "tests/staging/beds.h"
#include "tests/support/context.h"
#include "tests/support/decoding.h"
#include "tests/support/image_records.h"
#include "tests/support/images.h"
#include "tests/support/jpeg_coefficients.h"

namespace penstock::test {

using Bytes = std::vector<std::byte>;

inline Bytes record_of(std::span<const std::byte> jpeg,
                       jpeg::RecordKind kind = jpeg::RecordKind::coefficients) {
  jpeg::Made made = jpeg::make_record(jpeg, {.kind = kind});
  EXPECT_EQ(made.why, "");
  return std::move(made.record);
}

inline jpeg::DevicePlan plan_of(const Element& element) {
  jpeg::DevicePlan plan;
  std::memcpy(&plan, element["image_plan"].data(), sizeof(plan));
  return plan;
}

/// Returns the output of the chain for each image.
inline std::vector<WorkItem> run_op(const ImageOps& ops, const std::vector<Bytes>& images,
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

  /// Returns the device's output for images from `on_device`. Failed images are padding.
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

  /// Returns the number of images that the device made from coefficients.
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

inline const std::vector<Case>& cases() {
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

inline const std::vector<Bytes>& records() {
  static const std::vector<Bytes> all = [] {
    std::vector<Bytes> records;
    for (const Case& c : cases())
      records.push_back(
          record_of(make_jpeg(make_pixels(c.height, c.width, c.channels), c.options)));
    return records;
  }();
  return all;
}

}  // namespace penstock::test
