// A tower that takes nothing does not make the others wait for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "staging/feed_impl.h"
#include "staging/host/host_device.h"
#include "tests/staging/scripted.h"
#include "tests/support/log_capture.h"

namespace penstock {
namespace feed_turns_test {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kWatchdog = 60 * kSecond;
constexpr std::int64_t kElements = 80;
constexpr std::int64_t kRows = 4;  // of a tower's batch
constexpr std::uint64_t kEpochs = 3;
constexpr int kTowers = 2;
constexpr int kSlots = 2;

struct Way {
  const char* name;
  FeedMode mode = FeedMode::per_tower;
  bool in_turn = true;
};
constexpr std::array kWays = {Way{"split", FeedMode::split}, Way{"per_tower", FeedMode::per_tower},
                              Way{"free", FeedMode::per_tower, false},
                              Way{"sharded", FeedMode::sharded}};

/// What the other tower does before it calls nothing more.
struct Idle {
  const char* name;
  int takes = 0;
  bool holds = false;       ///< it keeps the leases
  bool to_the_end = false;  ///< it takes all batches of the epoch, but not its end
};
constexpr std::array kIdles = {Idle{"never_asks"},         Idle{"takes_one", 1},
                               Idle{"keeps_one", 1, true}, Idle{"keeps_all", kSlots, true},
                               Idle{"takes_two", 2},       Idle{"leaves_its_end", 0, false, true}};

class Towers {
 public:
  explicit Towers(const Way& way, double watchdog_s = 60) {
    FeedOptions options;
    options.mode = way.mode;
    options.in_turn = way.in_turn;
    options.slots = kSlots;
    options.watchdog_s = watchdog_s;
    options.run.epochs = kEpochs;
    std::vector<DevicePtr> devices;
    for (int t = 0; t < kTowers; ++t)
      devices.push_back(HostDevice::make({.index = t, .clock = &clock_, .unified = false}));
    const int inputs = way.mode == FeedMode::sharded ? kTowers : 1;
    std::vector<BatchSourcePtr> sources;
    for (int i = 0; i < inputs; ++i) {
      sources.push_back(std::make_unique<test::ScriptedSource>(
          test::Script{.elements = kElements / inputs,
                       .first = i,
                       .step = inputs,
                       .rows = way.mode == FeedMode::split ? kRows * kTowers : kRows,
                       .epochs = kEpochs}));
    }
    feed_ = std::make_unique<Feed>(
        std::make_unique<Feed::Impl>(Feed::Impl::Parts{.sources = std::move(sources),
                                                       .batches = test::ScriptedSource::spec(),
                                                       .room = kRows,
                                                       .rules = {.rows = kRows},
                                                       .devices = devices,
                                                       .options = options}));
  }

  /// Calls `next` once. Returns the lease, if it is one.
  std::optional<StagedBatch> take(int tower) {
    std::optional<StagedBatch> batch = feed_->next(tower);
    if (!batch) return batch;
    batch->synchronize();
    for (std::int64_t row = 0; row < batch->valid_rows(); ++row)
      got_.push_back(test::ScriptedSource::number((*batch)["x"].data + row * 8));
    return batch;
  }

  /// Calls `next` until the feed has ended or `next` throws. Returns the error.
  Status take_rest(int tower) try {
    while (!feed_->ended(tower)) take(tower);
    return {};
  } catch (const Error& error) {
    return Status(error);
  }

  VirtualClock& clock() { return clock_; }
  Feed& feed() { return *feed_; }
  const std::vector<std::int64_t>& got() {
    std::sort(got_.begin(), got_.end());
    return got_;
  }

 private:
  VirtualClock clock_;
  std::unique_ptr<Feed> feed_;
  std::vector<std::int64_t> got_;
};

std::vector<std::int64_t> all_numbers() {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < kElements; ++i) all.insert(all.end(), kEpochs, i);
  return all;
}

class TwoTowers : public testing::TestWithParam<std::tuple<Way, Idle, int>> {};

TEST_P(TwoTowers, IdleTower) {
  const auto& [way, idle, waits] = GetParam();
  const int idles = 1 - waits;
  const test::LogCapture log;
  Towers towers(way);
  std::vector<std::optional<StagedBatch>> held;
  Actor other;
  if (idle.to_the_end) {
    if (!way.in_turn) GTEST_SKIP() << "no batch is this tower's own";
    other = towers.clock().start({idles, 1000}, [&] {
      for (std::int64_t i = 0; i < kElements / kRows / kTowers; ++i) towers.take(idles);
    });
  }
  for (int i = 0; i < idle.takes; ++i) {
    std::optional<StagedBatch> batch = towers.take(idles);
    if (idle.holds) held.push_back(std::move(batch));
  }

  const std::int64_t begin = towers.clock().now();
  const Status error = towers.take_rest(waits);
  ASSERT_FALSE(error.ok());
  EXPECT_EQ(error.error().code(), ErrorCode::no_progress);
  const std::string text = "tower " + std::to_string(waits) + " host:" + std::to_string(waits) +
                           " waits for tower " + std::to_string(idles) +
                           " host:" + std::to_string(idles) +
                           ", which has neither taken nor released a batch for ";
  EXPECT_THAT(error.error().what(), testing::HasSubstr(text + "60.00 s; "));
  EXPECT_EQ(towers.clock().now() - begin, kWatchdog);
  EXPECT_THAT(log.lines(), testing::ElementsAre(text + "10.00 s"));

  // The error takes the place of nothing.
  held.clear();
  other = towers.clock().start({idles, 1000}, [&] { EXPECT_TRUE(towers.take_rest(idles).ok()); });
  EXPECT_TRUE(towers.take_rest(waits).ok());
  other.reset();
  EXPECT_EQ(towers.got(), all_numbers());
  EXPECT_EQ(towers.feed().stats().lost, 0U);
}

std::string name_of(const testing::TestParamInfo<TwoTowers::ParamType>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name +
         "_tower_" + std::to_string(std::get<2>(info.param)) + "_waits";
}
INSTANTIATE_TEST_SUITE_P(FeedTurns, TwoTowers,
                         testing::Combine(testing::ValuesIn(kWays), testing::ValuesIn(kIdles),
                                          testing::Values(0, 1)),
                         name_of);

// A tower may be as slow as it likes within the watchdog's time, which begins with each batch.
TEST(FeedTurns, SlowTower) {
  for (const Way& way : kWays) {
    const test::LogCapture log;
    Towers towers(way);
    const Actor slow = towers.clock().start({1, 1000}, [&] {
      while (!towers.feed().ended(1)) {
        towers.clock().sleep_until(towers.clock().now() + kWatchdog - kSecond);
        towers.take(1);
      }
    });
    EXPECT_TRUE(towers.take_rest(0).ok()) << way.name;
    if (way.in_turn) {
      EXPECT_EQ(log.lines().size(), 1U) << way.name;
    }
  }
}

// Input that is slow, or never comes, is no tower's fault.
TEST(FeedTurns, SlowInput) {
  for (const bool in_turn : {true, false}) {
    const test::LogCapture log;
    VirtualClock clock;
    FeedOptions options;
    options.in_turn = in_turn;
    std::vector<DevicePtr> devices;
    for (int t = 0; t < kTowers; ++t)
      devices.push_back(HostDevice::make({.index = t, .clock = &clock, .unified = false}));
    std::vector<BatchSourcePtr> sources;
    sources.push_back(std::make_unique<test::ScriptedSource>(test::Script{
        .elements = 4 * kRows, .rows = kRows, .clock = &clock, .takes_ns = 5 * kWatchdog}));
    Feed feed(
        std::make_unique<Feed::Impl>(Feed::Impl::Parts{.sources = std::move(sources),
                                                       .batches = test::ScriptedSource::spec(),
                                                       .room = kRows,
                                                       .rules = {.rows = kRows},
                                                       .devices = devices,
                                                       .options = options}));
    std::vector<Actor> takers;
    for (int t = 0; t < kTowers; ++t) {
      takers.push_back(clock.start({t, 1000}, [&, t] {
        while (!feed.ended(t)) EXPECT_NO_THROW(feed.next(t));
      }));
    }
    takers.clear();
    EXPECT_THAT(log.lines(), testing::IsEmpty());
    EXPECT_EQ(feed.stats().elements, 4U * kRows);
  }
}

TEST(FeedTurns, ShortWatchdog) {
  const test::LogCapture log;
  Towers towers(kWays[1], 0.5);
  const Status error = towers.take_rest(0);
  EXPECT_THAT(error.error().what(), testing::HasSubstr("for 0.500 s; with in_turn = false"));
  EXPECT_THAT(log.lines(), testing::IsEmpty());
}

// Every one of a hundred waits ends.
TEST(FeedTurns, ManyWaits) {
  const test::LogCapture log;
  Towers towers(kWays[1]);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(towers.take_rest(0).error().code(), ErrorCode::no_progress);
  EXPECT_EQ(towers.clock().now(), 100 * kWatchdog);
  EXPECT_EQ(log.lines().size(), 1U);
}

}  // namespace feed_turns_test
}  // namespace penstock
