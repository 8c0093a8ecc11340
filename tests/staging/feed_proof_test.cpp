// Feeds on simulated time: stalls to the nanosecond, and who is blamed for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "staging/feed_impl.h"
#include "staging/host/host_device.h"
#include "tests/staging/scripted.h"
#include "tests/staging/simulated_towers.h"

namespace penstock {
namespace feed_proof_test {

constexpr std::int64_t kUs = 1'000;
constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kRows = 4;
constexpr std::int64_t kRowBytes = 1000;

struct Plan {
  int towers = 1;
  FeedMode mode = FeedMode::per_tower;
  int slots = 2;
  int ahead = -1;
  bool in_turn = true;
  std::int64_t steps = 40;
  std::int64_t make_ns = 20 * kMs;  ///< one step of all towers
  std::int64_t copy_ns = kMs;       ///< one tower's batch, without latency
  std::int64_t latency_ns = 0;
  std::vector<std::int64_t> step_ns{21 * kMs};  ///< of each tower; the last for all that follow
  std::int64_t second_stream_ns = 0;            ///< another stream uses each batch for so long
  std::int64_t between_ns = 0;  ///< the tower's thread is busy elsewhere before it asks
  Stats stats{};
};

struct Result {
  FeedStats stats;
  std::int64_t end_ns = 0;
};

Result simulate(const Plan& plan) {
  VirtualClock clock;
  std::vector<DevicePtr> devices;
  for (int t = 0; t < plan.towers; ++t) {
    devices.push_back(HostDevice::make(
        {.index = t,
         .clock = &clock,
         .unified = false,
         .bytes_per_s =
             plan.copy_ns > 0 ? 1e9 * kRows * kRowBytes / static_cast<double>(plan.copy_ns) : 0,
         .latency_ns = plan.latency_ns,
         .check = true}));
  }
  FeedOptions options;
  options.mode = plan.mode;
  options.slots = plan.slots;
  options.ahead = plan.ahead;
  options.in_turn = plan.in_turn;
  const std::int64_t batches = plan.mode == FeedMode::split ? 1 : plan.towers;
  std::vector<BatchSourcePtr> sources;
  const std::int64_t inputs = plan.mode == FeedMode::sharded ? plan.towers : 1;
  for (std::int64_t i = 0; i < inputs; ++i) {
    sources.push_back(std::make_unique<test::ScriptedSource>(
        test::Script{.elements = plan.steps * plan.towers * kRows / inputs,
                     .rows = kRows * plan.towers / batches,
                     .row_bytes = kRowBytes,
                     .clock = &clock,
                     .takes_ns = plan.make_ns / batches,
                     .stats = plan.stats}));
  }
  Feed feed(std::make_unique<Feed::Impl>(
      Feed::Impl::Parts{.sources = std::move(sources),
                        .batches = test::ScriptedSource::spec(kRowBytes),
                        .room = kRows,
                        .rules = {.rows = kRows},
                        .devices = devices,
                        .options = options}));
  test::take_all(feed, devices, clock,
                 {.step_ns = plan.step_ns,
                  .second_stream_ns = plan.second_stream_ns,
                  .between_ns = plan.between_ns});
  clock.sleep_until(clock.now() + 1);  // reapers that are due at this moment come first
  Result result{feed.stats(), clock.now()};
  for (const DevicePtr& device : devices)
    EXPECT_THAT(static_cast<HostDevice&>(*device).hazards(), testing::IsEmpty());
  return result;
}

std::int64_t in_ns(double seconds) {
  return std::llround(seconds * 1e9);
}

class EachFeed : public testing::TestWithParam<std::tuple<int, FeedMode>> {
 protected:
  Plan plan() const {
    Plan result;
    result.towers = std::get<0>(GetParam());
    result.mode = std::get<1>(GetParam());
    result.make_ns = 20 * kMs / result.towers * result.towers;
    return result;
  }
};

TEST_P(EachFeed, StallsOfTwoSlots) {
  struct Times {
    std::int64_t copy;
    std::int64_t latency;
  };
  for (const Times times : {Times{kMs, 0}, Times{kMs, 7 * kUs}, Times{13 * kMs, 50 * kUs},
                            Times{20 * kMs, kMs}, Times{kUs, 20 * kMs}}) {
    Plan with = plan();
    with.copy_ns = times.copy;
    with.latency_ns = times.latency;
    const Result result = simulate(with);
    for (const TowerStats& tower : result.stats.towers) {
      EXPECT_EQ(tower.steps, 40U);
      EXPECT_EQ(in_ns(tower.stall_s), 0);
      EXPECT_EQ(in_ns(tower.step_s), 40 * 21 * kMs);
      // Priming: the first batch is made and copied.
      EXPECT_EQ(in_ns(tower.other_s), with.make_ns + times.copy + times.latency);
      EXPECT_EQ(tower.copy_hidden_share, 1);
    }
  }
}

TEST_P(EachFeed, StallsOfOneSlot) {
  Plan with = plan();
  with.slots = 1;
  with.copy_ns = 3 * kMs;
  with.latency_ns = 11 * kUs;
  const Result result = simulate(with);
  for (const TowerStats& tower : result.stats.towers) {
    EXPECT_EQ(tower.steps, 40U);
    EXPECT_EQ(in_ns(tower.stall_s), 39 * (with.make_ns + 3 * kMs + 11 * kUs));
    EXPECT_EQ(in_ns(tower.step_s), 40 * 21 * kMs);
  }
}

INSTANTIATE_TEST_SUITE_P(Towers, EachFeed,
                         testing::Combine(testing::Values(1, 2, 4, 8),
                                          testing::Values(FeedMode::split, FeedMode::per_tower,
                                                          FeedMode::sharded)));

Stats stats_of(std::vector<StageStats> stages) {
  Stats stats;
  stats.stages = std::move(stages);
  return stats;
}

struct Injected {
  std::string cause;
  Plan plan;
  int tower = 0;
};

std::vector<Injected> injected() {
  std::vector<Injected> cases;
  Plan slow;
  slow.make_ns = 60 * kMs;
  slow.copy_ns = 100 * kUs;
  cases.push_back({"source", slow});
  cases.back().plan.stats =
      stats_of({{"tar[0]", 0, 0, 0.050, 0, ""}, {"map[1] f", 0, 0, 0.010, 0, ""}});
  cases.push_back({"stage map[1] f", slow});
  cases.back().plan.stats =
      stats_of({{"tar[0]", 0, 0, 0.010, 0, ""}, {"map[1] f", 0, 0, 0.050, 0, ""}});
  cases.push_back({"budget", slow});
  cases.back().plan.stats =
      stats_of({{"tar[0]", 0, 0, 0.005, 0, ""}, {"map[1] f", 0, 0, 0.010, 0.045, "memory"}});
  Plan copying;
  copying.copy_ns = 60 * kMs;
  cases.push_back({"copy", copying});
  Plan held;
  held.slots = 1;
  held.make_ns = 200 * kUs;
  held.copy_ns = 100 * kUs;
  held.second_stream_ns = 80 * kMs;
  cases.push_back({"slots", held});
  Plan waiting;
  waiting.towers = 2;
  waiting.step_ns = {100 * kMs, 20 * kMs};
  waiting.make_ns = 400 * kUs;
  waiting.copy_ns = 100 * kUs;
  cases.push_back({"other tower", waiting, 1});
  return cases;
}

TEST(Ledger, InjectedCauses) {
  for (const Injected& one : injected()) {
    SCOPED_TRACE(one.cause);
    const Result result = simulate(one.plan);
    const TowerStats& tower = result.stats.towers[static_cast<std::size_t>(one.tower)];
    EXPECT_GT(tower.stall_s, 0.3);
    double charged = 0;
    double sum = 0;
    for (const auto& [name, seconds] : tower.causes) {
      sum += seconds;
      if (name == one.cause) charged = seconds;
    }
    EXPECT_GE(charged, 0.95 * tower.stall_s);
    EXPECT_NEAR(sum, tower.stall_s, 1e-9);
  }
}

TEST(Ledger, SumsToWallTime) {
  for (const Injected& one : injected()) {
    SCOPED_TRACE(one.cause);
    Plan plan = one.plan;
    plan.between_ns = 3 * kMs;
    const Result result = simulate(plan);
    for (const TowerStats& tower : result.stats.towers) {
      EXPECT_NEAR(tower.stall_s + tower.step_s + tower.other_s, tower.wall_s, 1e-9);
      EXPECT_LE(in_ns(tower.wall_s), result.end_ns);
      EXPECT_GE(tower.other_s, 39 * 3e-3);
    }
  }
}

TEST(Feed, SlowTowerOutOfTurn) {
  Plan plan;
  plan.towers = 2;
  plan.step_ns = {100 * kMs, 20 * kMs};
  plan.make_ns = 2 * kMs;
  plan.copy_ns = 100 * kUs;
  plan.in_turn = false;
  plan.steps = 60;
  const Result result = simulate(plan);
  EXPECT_EQ(result.stats.towers[0].steps + result.stats.towers[1].steps, 120U);
  EXPECT_NEAR(static_cast<double>(result.stats.towers[1].steps), 100, 4);
  EXPECT_LT(result.stats.towers[1].stall_share(), 0.01);
}

}  // namespace feed_proof_test
}  // namespace penstock
