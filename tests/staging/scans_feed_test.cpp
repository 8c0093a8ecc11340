// Feeds that leave the scans of JPEGs to devices: what towers get is what they get if the host
// decodes, whatever the devices do not decode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/feed.h>
#include <penstock/reconstruct.h>
#include <penstock/sources.h>

#include "pipeline/image/on_device.h"
#include "tests/staging/batches.h"
#include "tests/support/images.h"

namespace penstock {
namespace {

using image::WhyHost;
using testing::HasSubstr;

constexpr std::int64_t kEach = 4;
using ScanBytes = std::vector<std::byte>;

/// The host decodes the first ones, and not the last ones.
enum class ScanKind { good, progressive, fill_bytes, ends_early, no_codes, empty };

ScanBytes jpeg_of(std::int64_t number, ScanKind kind) {
  const int side = 20 + static_cast<int>(number * 13 % 60);
  ScanBytes file =
      test::make_jpeg(test::make_pixels(side, 90 - side, 3, static_cast<std::uint64_t>(number)),
                      {.quality = 60 + static_cast<int>(number % 40),
                       .horizontal = 1 + static_cast<int>(number % 2),
                       .progressive = kind == ScanKind::progressive,
                       .restart_interval = static_cast<int>(number % 3)});
  switch (kind) {
    case ScanKind::good:
    case ScanKind::progressive:
      break;
    case ScanKind::fill_bytes:
      file.insert(file.end() - 2, std::byte{0xff});
      break;
    case ScanKind::ends_early:
      file.resize(file.size() - file.size() / 8);
      break;
    case ScanKind::no_codes:
      std::fill(file.end() - 100, file.end() - 2, std::byte{0x7f});
      break;
    case ScanKind::empty:
      file.clear();
      break;
  }
  return file;
}

Dataset images(std::int64_t count, const std::function<ScanKind(std::int64_t)>& kind_of) {
  std::vector<std::string> images;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    const ScanBytes bytes = jpeg_of(i, kind_of(i));
    images.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    labels.push_back(i);
  }
  const std::vector<std::string_view> views(images.begin(), images.end());
  return tensors({{"image", Tensor::of_bytes(views)},
                  {"label", Tensor::of<std::int64_t>(Shape({count}), labels)}});
}

ImageOps crops() {
  return decode_image().random_resized_crop(24).random_flip().normalize();
}

Dataset batches(const Dataset& input) {
  return input.map(crops().on_device()).batch(kEach);
}

/// Everything that towers get, one text for each call of `next`. Calls them in turn.
std::vector<std::string> deliveries(Feed& feed, const ImageOps& ops = crops()) {
  std::vector<Reconstructor> reconstructors;
  std::vector<std::string> all;
  for (int t = 0; t < feed.towers(); ++t)
    reconstructors.emplace_back(feed.device(t).shared_from_this(), kEach, ops);
  for (bool more = true; more;) {
    more = false;
    for (int t = 0; t < feed.towers(); ++t) {
      if (feed.ended(t)) continue;
      more = true;
      const DevicePtr device = feed.device(t).shared_from_this();
      std::string text = std::to_string(t) + ":";
      try {
        std::optional<StagedBatch> batch = feed.next(t);
        if (!batch) {
          all.push_back(text + " end");
          continue;
        }
        const Stream stream(device, "step");
        batch->wait(stream);
        const std::int64_t count = (*batch)["image"].shape[0];
        Reconstructor& reconstructor = reconstructors[static_cast<std::size_t>(t)];
        DeviceTensor out{DType::f32, reconstructor.image().shape.prepend(count), nullptr, nullptr};
        out.data = device->allocate(out.nbytes());
        reconstructor.run(stream, *batch, out);
        const auto pixels = test::read<float>(stream, out);
        const auto labels = test::read<std::int64_t>(stream, (*batch)["label"]);
        const std::size_t each = pixels.size() / static_cast<std::size_t>(count);
        for (std::size_t r = 0; r < labels.size(); ++r) {
          const std::string_view row(reinterpret_cast<const char*>(pixels.data() + r * each),
                                     each * sizeof(float));
          text +=
              " " + (static_cast<std::int64_t>(r) < batch->valid_rows() ? std::to_string(labels[r])
                                                                        : "-");
          text += "=" + std::to_string(std::hash<std::string_view>()(row));
        }
        batch->release(stream);
        stream.view().synchronize();
        device->deallocate(out.data, out.nbytes());
      } catch (const Error& error) {
        text += error.what();
      }
      all.push_back(text);
    }
  }
  return all;
}

std::vector<std::string> counts_of(const Feed& feed) {
  const FeedStats stats = feed.stats();
  std::vector<std::string> all;
  all.push_back(std::to_string(stats.batches) + " batches, " + std::to_string(stats.elements) +
                " elements, lost " + std::to_string(stats.lost) + ", " +
                std::to_string(stats.wrapped) + " wrapped");
  for (const EpochStats& epoch : stats.run.epochs)
    all.push_back("epoch " + std::to_string(epoch.epoch) + ": " + std::to_string(epoch.elements) +
                  " elements, " + std::to_string(epoch.skipped) + " skipped");
  return all;
}

std::vector<std::string> deliveries(const Dataset& dataset, const std::string& names,
                                    const FeedOptions& options, const ImageOps& ops = crops()) {
  Feed feed(dataset, devices(names), options);
  std::vector<std::string> all = deliveries(feed, ops);
  for (std::string& count : counts_of(feed)) all.push_back(std::move(count));
  return all;
}

std::uint64_t undecoded() {
  return image::device_counts().host[static_cast<std::size_t>(WhyHost::undecoded)];
}
std::uint64_t scans() {
  return image::device_counts().scans;
}

FeedOptions options_of(FeedMode mode, EpochEnd end, OnError on_error) {
  FeedOptions options;
  options.mode = mode;
  options.end = end;
  options.max_bytes = 1 << 20;
  options.run.seed = 7;
  options.run.epochs = 2;
  options.run.threads = 3;
  options.run.on_error = on_error;
  return options;
}

using ScansWay = std::tuple<FeedMode, EpochEnd, OnError>;
class ScansFeed : public testing::TestWithParam<ScansWay> {};

TEST_P(ScansFeed, DeliveriesOfTheHost) {
  const auto& [mode, end, on_error] = GetParam();
  FeedOptions options = options_of(mode, end, on_error);
  for (const int one_in : {0, 9, 3, 1}) {
    const auto kind_of = [one_in](std::int64_t i) {
      if (one_in == 0 || i % one_in != 0) return ScanKind::good;
      return static_cast<ScanKind>(1 + i / one_in % 5);
    };
    // More than half may be bad, which ends a run that skips them.
    options.run.max_error_share = on_error == OnError::skip ? std::optional(1.0) : std::nullopt;
    const Dataset dataset = batches(images(45, kind_of).shuffle());
    const auto expected = deliveries(dataset, "host:0,host:1", options);
    const std::uint64_t before = undecoded();
    const std::uint64_t scans_before = scans();
    const auto got = deliveries(dataset, "host:0:check,host:1:check", options);
    ASSERT_EQ(got.size(), expected.size()) << one_in;
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], expected[i]) << one_in;
    EXPECT_GT(scans(), scans_before);
    EXPECT_EQ(undecoded() > before, one_in > 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ScansFeed,
    testing::Combine(testing::Values(FeedMode::per_tower, FeedMode::split, FeedMode::sharded),
                     testing::Values(EpochEnd::drop, EpochEnd::stop, EpochEnd::pad, EpochEnd::wrap),
                     testing::Values(OnError::fail, OnError::skip)));

TEST(ScansFeedStates, RestoredOnOtherDevices) {
  const auto kind_of = [](std::int64_t i) {
    return static_cast<ScanKind>(i % 4 == 1 ? 2 + i % 3 : 0);
  };
  const FeedOptions options = options_of(FeedMode::per_tower, EpochEnd::stop, OnError::fail);
  const Dataset dataset = batches(images(30, kind_of).shuffle({.buffer = 8}));
  Feed whole(dataset, devices("host:0"), options);
  const auto all = deliveries(whole);
  Feed feed(dataset, devices("host:0:check"), options);
  for (std::size_t taken = 0; taken < all.size(); ++taken) {
    const std::string state = feed.save();
    for (const char* names : {"host:0", "host:0:check"}) {
      Feed restored = Feed::restore(state, dataset, devices(names), options);
      EXPECT_EQ(
          deliveries(restored),
          std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(taken), all.end()))
          << taken << " on " << names;
    }
    try {
      static_cast<void>(feed.next(0));
    } catch (const Error&) {  // in the place of a batch
    }
  }
}

TEST(ScansFeedCounts, ElementsLeftOver) {
  for (const OnError on_error : {OnError::fail, OnError::skip}) {
    for (const std::int64_t odd : {1, 17, 44, 45}) {
      const auto kind_of = [odd](std::int64_t i) {
        return i == odd ? ScanKind::no_codes : ScanKind::good;
      };
      const Dataset dataset =
          images(45, kind_of).map(crops().on_device()).batch(kEach, {.drop_remainder = true});
      const FeedOptions options = options_of(FeedMode::per_tower, EpochEnd::stop, on_error);
      EXPECT_EQ(deliveries(dataset, "host:0:check", options),
                deliveries(dataset, "host:0", options))
          << odd;
    }
  }
}

TEST(ScansFeedErrors, DeviceErrorsThatPass) {
  const FeedOptions options = options_of(FeedMode::per_tower, EpochEnd::stop, OnError::fail);
  const Dataset dataset = batches(images(24, [](auto) { return ScanKind::good; }));
  const auto good = deliveries(dataset, "host:0", options);
  for (int record = 1; record < 40; ++record) {
    auto got = deliveries(dataset, "host:0:fail_record=" + std::to_string(record), options);
    std::erase_if(got, [](const std::string& text) { return text.find(" failed") != text.npos; });
    EXPECT_EQ(got, good) << record;
  }
}

TEST(ScansFeedCounts, GoodImages) {
  const std::uint64_t before = scans();
  const std::uint64_t undecoded_before = undecoded();
  const FeedOptions options = options_of(FeedMode::per_tower, EpochEnd::stop, OnError::fail);
  const Dataset dataset = batches(images(40, [](auto) { return ScanKind::good; }));
  static_cast<void>(deliveries(dataset, "host:0:check", options));
  EXPECT_EQ(scans() - before, 2 * 40);
  EXPECT_EQ(undecoded(), undecoded_before);
}

TEST(ScansFeedCounts, UndecodedImagesInARow) {
  const std::uint64_t before = undecoded();
  FeedOptions options = options_of(FeedMode::per_tower, EpochEnd::stop, OnError::fail);
  options.run.epochs = 1;
  const Dataset dataset = batches(images(64 * kEach, [](auto) { return ScanKind::fill_bytes; }));
  const auto all = deliveries(dataset, "host:0:check", options);
  EXPECT_EQ(all.size(), 64 + 3);
  // The run goes back after 1, 2, 4, … batches more, so at most seven times for 64 batches.
  EXPECT_GE(undecoded() - before, kEach);
  EXPECT_LE(undecoded() - before, 7 * kEach);
}

TEST(ScansFeedCounts, HostInsteadOfDevices) {
  constexpr std::uint64_t kImages = 2 * 16;  // of two epochs
  const Dataset input = images(16, [](auto) { return ScanKind::good; });
  const FeedOptions usual = options_of(FeedMode::per_tower, EpochEnd::stop, OnError::fail);
  const auto by_host = [](const Dataset& dataset, const char* names, const FeedOptions& options,
                          WhyHost why, const ImageOps& ops = crops()) {
    const auto count = [&] { return image::device_counts().host[static_cast<std::size_t>(why)]; };
    const std::uint64_t scans_before = scans();
    const std::uint64_t before = count();
    static_cast<void>(deliveries(dataset, names, options, ops));
    EXPECT_EQ(scans(), scans_before) << image::name_of(why);
    return count() - before;
  };
  const char* const copies = "host:0:check";
  EXPECT_EQ(by_host(batches(input), "host:0", usual, WhyHost::unchecked), kImages);
  FeedOptions little = usual;
  little.device_memory = 4 << 20;
  EXPECT_EQ(by_host(batches(input), copies, little, WhyHost::unchecked), kImages);
  // Something could read the bytes of these images, or keep them.
  const auto same = [](const Element& in) { return in; };
  EXPECT_EQ(by_host(input.map(crops().on_device()).map(same).batch(kEach), copies, usual,
                    WhyHost::unchecked),
            kImages);
  EXPECT_EQ(by_host(batches(input).cache(), copies, usual, WhyHost::unchecked), kImages / 2);
  EXPECT_EQ(by_host(input.map(crops().on_device()).batch(2).unbatch().batch(kEach), copies, usual,
                    WhyHost::unchecked),
            kImages);
  // Only one of these images would be checked.
  const Spec both(
      {{"image", DType::bytes, {}}, {"label", DType::i64, {}}, {"other", DType::bytes, {}}});
  const Dataset twice = input.map(
      [](Element in) {
        in.set("other", in["image"]);
        return in;
      },
      {.output = both});
  EXPECT_EQ(by_host(twice.map(decode_image("other").resize(24, 24).on_device())
                        .map(crops().on_device())
                        .batch(kEach),
                    copies, usual, WhyHost::unchecked),
            2 * kImages);
  // The run could go back only by making everything again.
  EXPECT_EQ(by_host(input.cache().map(crops().on_device()).batch(kEach), copies, usual,
                    WhyHost::unchecked),
            kImages);
  FeedOptions narrow = usual;
  narrow.max_bytes = kEach * 64;
  const ImageOps small = decode_image().resize(4, 4).normalize();
  EXPECT_EQ(
      by_host(input.map(small.on_device()).batch(kEach), copies, narrow, WhyHost::room, small),
      kImages);
  EXPECT_EQ(by_host(batches(images(16, [](auto) { return ScanKind::progressive; })), copies, usual,
                    WhyHost::header),
            kImages);
}

TEST(ScansFeedErrors, HungCopies) {
  FeedOptions options = options_of(FeedMode::per_tower, EpochEnd::stop, OnError::fail);
  options.watchdog_s = 0.2;
  const Dataset dataset = batches(images(16, [](auto) { return ScanKind::good; }));
  for (int copy = 1; copy < 16; ++copy) {
    Feed feed(dataset, devices("host:0:hang_copy=" + std::to_string(copy)), options);
    std::string error;
    try {
      while (!feed.ended(0)) {
        std::optional<StagedBatch> batch = feed.next(0);
        if (batch) batch->synchronize();  // so that no stream of this test hangs
      }
    } catch (const Error& thrown) {
      EXPECT_EQ(thrown.code(), ErrorCode::no_progress) << thrown.what();
      error = thrown.what();
    }
    EXPECT_THAT(error, HasSubstr("has not ended for 0.2")) << copy;
  }
}

}  // namespace
}  // namespace penstock
