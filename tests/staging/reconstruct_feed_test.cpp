// Packed images through a feed: short batches, padding, elements left out, and several towers.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include <penstock/dataset.h>
#include <penstock/feed.h>
#include <penstock/reconstruct.h>
#include <penstock/sources.h>

#include "pipeline/jpeg/records/make.h"
#include "tests/staging/batches.h"
#include "tests/support/images.h"

namespace penstock {
namespace {

constexpr std::int64_t kBatch = 8;

ImageOps chain() {
  return decode_image().random_resized_crop(24).random_flip().normalize();
}

/// Records, some plain files among them, and with `damaged` every seventh damaged.
Dataset source(std::int64_t count, bool damaged) {
  std::vector<std::string> images;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    const int side = 20 + static_cast<int>(i * 13 % 60);
    const auto jpeg = test::make_jpeg(
        test::make_pixels(side, 90 - side, 3, static_cast<std::uint64_t>(i)),
        {.quality = 60 + static_cast<int>(i % 40), .horizontal = 1 + static_cast<int>(i % 2)});
    auto bytes = i % 5 == 4 ? jpeg : jpeg::make_record(jpeg, {}).record;
    if (damaged && i % 7 == 3) bytes[bytes.size() / 2] ^= std::byte{16};
    if (damaged && i % 7 == 3 && i % 5 == 4) bytes.resize(bytes.size() / 3);
    images.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    labels.push_back(i);
  }
  const std::vector<std::string_view> views(images.begin(), images.end());
  return tensors({{"image", Tensor::of_bytes(views)},
                  {"label", Tensor::of<std::int64_t>(Shape({count}), labels)}});
}

using Rows = std::map<std::int64_t, std::vector<std::byte>>;  // by label

Rows on_host(const Dataset& input, const RunOptions& run) {
  Rows rows;
  Iterator iterator = input.map(chain()).batch(kBatch).iterate(run);
  for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    const Element& batch = next.value();
    const Tensor& image = batch["image"];
    const std::size_t stride = image.nbytes() / static_cast<std::size_t>(image.dim(0));
    for (std::int64_t r = 0; r < image.dim(0); ++r) {
      const std::byte* from = image.data() + static_cast<std::size_t>(r) * stride;
      rows[batch["label"].values<std::int64_t>()[static_cast<std::size_t>(r)]] = {from,
                                                                                  from + stride};
    }
  }
  return rows;
}

struct Fed {
  Rows rows;
  std::int64_t padding = 0;  ///< rows of zeros
};

Fed on_devices(const Dataset& input, const RunOptions& run, const std::string& names,
               EpochEnd end) {
  const std::vector<DevicePtr> towers = devices(names);
  FeedOptions options;
  options.end = end;
  options.max_bytes = 8 << 20;
  options.run = run;
  Feed feed(input.map(chain().on_device()).batch(kBatch), towers, options);
  Fed fed;
  std::vector<Reconstructor> reconstructors;
  for (const DevicePtr& device : towers) reconstructors.emplace_back(device, kBatch, chain());
  std::vector<bool> over(towers.size());
  while (std::ranges::find(over, false) != over.end()) {
    for (std::size_t t = 0; t < towers.size(); ++t) {
      if (over[t]) continue;
      std::optional<StagedBatch> batch = feed.next(static_cast<int>(t));
      if (!batch) {
        over[t] = true;
        continue;
      }
      const Stream stream(towers[t], "step");
      batch->wait(stream);
      const std::int64_t count = (*batch)["image"].shape[0];
      DeviceTensor out{DType::f32, reconstructors[t].image().shape.prepend(count), nullptr,
                       nullptr};
      out.data = towers[t]->allocate(out.nbytes());
      reconstructors[t].run(stream, *batch, out);
      const auto bytes = test::read<float>(stream, out);
      const auto labels = test::read<std::int64_t>(stream, (*batch)["label"]);
      const auto* from = reinterpret_cast<const std::byte*>(bytes.data());
      const std::size_t stride = out.nbytes() / static_cast<std::size_t>(count);
      for (std::int64_t r = 0; r < count; ++r, from += stride) {
        if (r < batch->valid_rows()) {
          fed.rows[labels[static_cast<std::size_t>(r)]] = {from, from + stride};
        } else {
          ++fed.padding;
          EXPECT_TRUE(
              std::all_of(from, from + stride, [](std::byte b) { return b == std::byte{0}; }));
        }
      }
      batch->release(stream);
      stream.view().synchronize();
      towers[t]->deallocate(out.data, out.nbytes());
    }
  }
  return fed;
}

struct Way {
  const char* name;
  const char* devices;
  EpochEnd end;
};

class ReconstructFeed : public testing::TestWithParam<Way> {};

TEST_P(ReconstructFeed, DeliversTheSameRows) {
  const Way& way = GetParam();
  for (const bool damaged : {false, true}) {
    for (const std::int64_t count : {std::int64_t{4}, kBatch, 4 * kBatch, 5 * kBatch + 3}) {
      const Dataset input = source(count, damaged).shuffle();
      RunOptions run;
      run.seed = 21;
      if (damaged) run.on_error = OnError::skip;
      const Rows expected = on_host(input, run);
      EXPECT_EQ(expected.size() < static_cast<std::size_t>(count), damaged);
      const Fed fed = on_devices(input, run, way.devices, way.end);
      for (const auto& [label, row] : fed.rows) {
        ASSERT_TRUE(expected.contains(label)) << label;
        EXPECT_TRUE(row == expected.at(label)) << label;
      }
      if (way.end == EpochEnd::pad) {
        EXPECT_EQ(fed.rows.size(), expected.size());
        EXPECT_EQ((fed.padding + static_cast<std::int64_t>(fed.rows.size())) % kBatch, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ReconstructFeed,
                         testing::Values(Way{"in_place", "host:0", EpochEnd::pad},
                                         Way{"copied", "host:0:copies:check", EpochEnd::pad},
                                         Way{"two", "host:0:copies,host:1", EpochEnd::pad},
                                         Way{"short_ones", "host:0", EpochEnd::stop},
                                         Way{"dropped", "host:0,host:1", EpochEnd::drop}),
                         [](const auto& way) { return std::string(way.param.name); });

TEST(ReconstructFeedErrors, DamagedRecord) {
  const Dataset input = source(20, true);
  EXPECT_THROW(on_devices(input, {}, "host:0", EpochEnd::pad), Error);
}

}  // namespace
}  // namespace penstock
