// What a feed takes, and what it says of the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include <penstock/feed.h>
#include <penstock/penstock.h>

#include "staging/clock.h"
#include "staging/host/host_device.h"
#include "tests/engine/budgets.h"
#include "tests/staging/batches.h"
#include "tests/staging/take.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::Numbers;
using test::some_devices;
using test::take_all;
using test::Taken;

TEST(FeedInputs, InvalidInputs) {
  const auto code = [](const Dataset& dataset, const FeedOptions& options, int towers) {
    return test::code_of([&] { Feed(dataset, some_devices(towers, true), options); });
  };
  const auto wrong = std::optional(ErrorCode::invalid_argument);
  EXPECT_EQ(code(range(8), {}, 1), wrong);
  EXPECT_EQ(code(range(8).batch(3), {.mode = FeedMode::split}, 2), wrong);
  EXPECT_EQ(code(range(8).batch(4), {}, 0), wrong);
  EXPECT_EQ(code(range(8).batch(4), {.slots = 0}, 1), wrong);
  EXPECT_EQ(code(range(8).batch(4), {.end = EpochEnd::wrap, .in_turn = false}, 1), wrong);
  EXPECT_EQ(code(range(8).batch(4), {.mode = FeedMode::sharded, .in_turn = false}, 1), wrong);
  EXPECT_EQ(code(range(8).batch(4).take(1), {.mode = FeedMode::sharded}, 2), wrong);
  EXPECT_EQ(test::code_of([] {
              Feed({range(8).batch(4), range(8).batch(2)}, some_devices(2, true),
                   {.mode = FeedMode::sharded});
            }),
            wrong);
  Feed feed(range(8).batch(4).prefetch(), some_devices(1, true));
  EXPECT_EQ(test::code_of([&] { static_cast<void>(feed.next(1)); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code(range(8).batch(4), {.device_memory = 10}, 1), ErrorCode::resource_exhausted);
}

TEST(FeedInputs, PinnedMemoryOfEachShardsDevice) {
  const std::vector<DevicePtr> devices = some_devices(2, false);
  Feed feed({range(8).batch(4), range(8).batch(4)}, devices, {.mode = FeedMode::sharded});
  for (int t = 0; t < 2; ++t) EXPECT_EQ(take_all(feed, t).front().size(), 2U);
  for (const DevicePtr& device : devices) EXPECT_GT(device->counters().pinned_allocations, 0U);
}

TEST(FeedInputs, DevicesWithDifferentClocks) {
  VirtualClock clock;
  const std::vector<DevicePtr> devices{HostDevice::make({.index = 0}),
                                       HostDevice::make({.index = 1, .clock = &clock})};
  EXPECT_EQ(test::code_of([&] { Feed(range(8).batch(4), devices); }), ErrorCode::invalid_argument);
}

/// {value: i64, key: bytes}, as sources of files have.
Dataset keyed(std::int64_t count, std::size_t key_bytes) {
  return range(count).map([key_bytes](const Element&) { return std::string(key_bytes, 'k'); },
                          {.adds = {{"key", DType::bytes, {}}}});
}

TEST(FeedInputs, HasRoomForTextUnlessItIsTold) {
  const auto batches = [](Dataset dataset, FeedOptions options = {}) {
    Feed feed(dataset.batch(4), some_devices(1, false), options);
    return take_all(feed, 0).front();
  };
  const std::vector<Numbers> expected{{0, 1, 2, 3}, {4, 5, 6, 7}};
  EXPECT_EQ(batches(keyed(8, 20)), expected);
  EXPECT_EQ(batches(keyed(8, 256 << 10)), expected);  // just the room that there is
  EXPECT_THAT(
      test::text_of([&] { (void)batches(keyed(8, (256 << 10) + 1)); }),
      testing::HasSubstr("component key: the batch has 1048580 bytes of text, and a slot has room "
                         "for 1048576 (max_bytes); raise that, or drop the component"));
  EXPECT_EQ(batches(keyed(8, (256 << 10) + 1).drop({"key"})), expected);
  EXPECT_EQ(batches(keyed(8, (256 << 10) + 1), {.max_bytes = 2 << 20}), expected);
  Feed behind(keyed(8, (256 << 10) + 1).batch(4).keep({"value"}), some_devices(1, false));
  EXPECT_EQ(take_all(behind, 0).front(), expected) << "dropped behind the batch";
  EXPECT_THAT(test::text_of([&] { (void)batches(keyed(8, 20), {.max_bytes = 0}); }),
              testing::HasSubstr("component key: of dtype bytes and shape [], so that its size is "
                                 "not known before, and max_bytes is 0: say how many, or drop"));
}

// Of a map's output the spec tells how many rows there are, if they are not the batch's.
// The towers hold the batches of a step for 250 ms. Beside them the next step has no room. Without
// the feed, the run would fail after 100 ms.
TEST(FeedInputs, WaitsForTowersThatHoldItsMemory) {
  for (const bool in_turn : {true, false}) {
    const Dataset texts(std::make_shared<test::ParetoSource>(
        test::ParetoSource::Options{.count = 16 * 8, .least = 4 << 10, .most = 4 << 10}));
    Feed feed(texts.batch(16), some_devices(2, true),
              {.in_turn = in_turn, .run = {.threads = 2, .memory_bytes = 180 << 10}});
    const auto work = [&](int tower) {
      std::int64_t rows = 0;
      while (const std::optional<StagedBatch> batch = feed.next(tower)) {
        rows += batch->valid_rows();
        std::this_thread::sleep_for(std::chrono::milliseconds(250));
      }
      return rows;
    };
    std::future<std::int64_t> other = std::async(std::launch::async, work, 1);
    const std::int64_t rows = work(0);
    EXPECT_EQ(rows + other.get(), 16 * 8);
  }
}

TEST(FeedInputs, TakesBatchesThatAMapMakesOtherOnesOf) {
  const auto three = [](const Element& in) {
    const std::array<std::int64_t, 3> values{in[0].values<std::int64_t>()[0], 7, 8};
    return Element{{"value", Tensor::of<std::int64_t>({3}, values)}};
  };
  const auto outer = [](const Element& in) {
    return Element{{"value", in[0].slice(0, 0, in[0].dim(0) / 2)}};
  };
  const Dataset batches = range(24).batch(4);
  const Dataset fixed = batches.map(three, {.output = Spec({{"value", DType::i64, Shape({3})}})});
  Feed feed(fixed, some_devices(1, true));
  EXPECT_EQ(take_all(feed)[0][0][1], Numbers({4, 7, 8}));
  Feed divided(fixed, some_devices(3, false), {.mode = FeedMode::split});
  EXPECT_EQ(take_all(divided)[1][0][1], Numbers({7}));
  // Nobody can know that these are halves: the last two are taken for what is left over.
  Feed halves(batches.map(outer), some_devices(2, false));
  const std::vector<Taken> taken = take_all(halves);
  EXPECT_EQ(taken[0][0], std::vector<Numbers>({{0, 1}, {8, 9}}));
  EXPECT_EQ(taken[1][0], std::vector<Numbers>({{4, 5}, {12, 13}}));
  EXPECT_EQ(halves.stats().lost, 4U);
  Feed parts(batches.map(outer), some_devices(2, false),
             {.mode = FeedMode::split, .end = EpochEnd::stop});
  EXPECT_EQ(take_all(parts)[1][0][2], Numbers({9}));
}

TEST(FeedInputs, SaysWhyAModeOrAnEndHasNoMeaning) {
  const auto text = [](const Dataset& dataset, const FeedOptions& options) {
    return test::text_of([&] { Feed(dataset, some_devices(2, true), options); });
  };
  const Dataset varying = range(9).batch(4).rebatch(std::vector<std::int64_t>{2, 3});
  EXPECT_EQ(text(varying.prefetch(), {.mode = FeedMode::split}),
            "FeedMode::split divides batches, and those of rebatch[2] have different numbers of "
            "rows: use FeedMode::per_tower, which gives each tower whole ones");
  EXPECT_EQ(text(varying, {.end = EpochEnd::pad}),
            "EpochEnd::pad fills batches up, and those of rebatch[2] have different numbers of "
            "rows: use EpochEnd::drop or EpochEnd::stop");
  EXPECT_EQ(text(range(9).batch(4).repeat(), {.end = EpochEnd::wrap}),
            "EpochEnd::wrap completes what is left with rows of the next epoch, and batches of "
            "repeat[2] may be short anywhere, not only at an epoch's end: use EpochEnd::drop or "
            "EpochEnd::stop");
  EXPECT_EQ(text(range(9).batch(4).take(1), {.mode = FeedMode::sharded}),
            "FeedMode::sharded: take[2] would give other rows, made of a shard of its elements; "
            "use FeedMode::per_tower, or give a dataset for each tower");
  EXPECT_EQ(text(range(9).batch(4).unbatch(), {}),
            "a feed takes batches, but unbatch[2] may give something else; put it before batch[1], "
            "or batch again after it");
  EXPECT_EQ(text(range(9), {}),
            "a feed takes batches, but the dataset ends with range: add batch (--batch)");
}

// One shard has all that is left, for more towers than it would have slots for.
TEST(FeedInputs, LastShardForAllTowers) {
  std::vector<Dataset> shards;
  for (std::int64_t t = 0; t < 8; ++t) {
    const auto kept = [t](const Element& in) {
      const std::int64_t number = in[0].item<std::int64_t>();
      return number % 8 == t && (number < 80 || t == 3);
    };
    shards.push_back(range(800).filter(kept).batch(2));
  }
  Feed feed(shards, some_devices(8, true), {.mode = FeedMode::sharded, .end = EpochEnd::pad});
  Numbers all;
  for (const Taken& tower : take_all(feed)) {
    EXPECT_EQ(tower[0].size(), 5U + 6U);
    for (const Numbers& batch : tower[0]) all.insert(all.end(), batch.begin(), batch.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all.size(), 170U);
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

// Stages behind a batch may hold its slots, and so do as many towers.
TEST(FeedInputs, HasSlotsForManyTowersBehindStagesThatHoldSome) {
  const test::TimeLimit limit(60);
  const auto same = [](Element batch) { return batch; };
  const Dataset batches = range(400).batch(2);
  for (const Dataset& dataset :
       {batches.map(same), batches.shuffle({.buffer = 50}), batches.cache(),
        batches.map(same).cache().shuffle({.buffer = 70}).map(same), batches.rebatch(2),
        batches.filter([](const Element&) { return true; })}) {
    for (const std::uint64_t memory : {0U, 256U << 10}) {
      FeedOptions options;
      options.run.memory_bytes = memory;
      options.run.threads = 2;
      options.slots = 3;
      Feed feed(dataset, some_devices(8, true), options);
      Numbers all;
      for (const Taken& tower : take_all(feed)) {
        for (const Numbers& batch : tower[0]) all.insert(all.end(), batch.begin(), batch.end());
      }
      EXPECT_EQ(all.size(), 400U) << dataset.explain();
    }
  }
}
}  // namespace
}  // namespace penstock
