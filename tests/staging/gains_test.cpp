// What the ledger says a cause costs, against runs without that cause, on simulated time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>

#include "staging/feed_impl.h"
#include "staging/host/host_device.h"
#include "tests/staging/fluid.h"
#include "tests/staging/simulated_towers.h"

namespace penstock {
namespace {

constexpr std::int64_t kUs = 1'000;
constexpr std::int64_t kRows = 4;
constexpr std::int64_t kSteps = 16;

struct Setting {
  int number = 0;
  int towers = 1;
  FeedMode mode = FeedMode::per_tower;
  int slots = 2;
  int ahead = 1;
  std::int64_t copy_ns = 0;
  test::Flow flow{};
  test::TowerTimes tower{};
};

FeedStats simulate(const Setting& setting) {
  VirtualClock clock;
  std::vector<DevicePtr> devices;
  for (int t = 0; t < setting.towers; ++t) {
    devices.push_back(HostDevice::make(
        {.index = t, .clock = &clock, .unified = false, .latency_ns = setting.copy_ns}));
  }
  FeedOptions options;
  options.mode = setting.mode;
  options.slots = setting.slots;
  options.ahead = setting.ahead;
  const int inputs = setting.mode == FeedMode::sharded ? setting.towers : 1;
  test::Flow flow = setting.flow;
  flow.rows = setting.mode == FeedMode::split ? kRows * setting.towers : kRows;
  flow.batches = setting.mode == FeedMode::per_tower ? kSteps * setting.towers : kSteps;
  std::vector<BatchSourcePtr> sources;
  for (int i = 0; i < inputs; ++i)
    sources.push_back(std::make_unique<test::FluidSource>(flow, clock));
  Feed feed(std::make_unique<Feed::Impl>(
      Feed::Impl::Parts{.sources = std::move(sources),
                        .batches = Spec({{"x", DType::u8, Shape({-1, flow.row_bytes})}}),
                        .room = kRows,
                        .rules = {.rows = kRows},
                        .devices = devices,
                        .options = options}));
  test::take_all(feed, devices, clock, setting.tower);
  clock.sleep_until(clock.now() + 1);  // reapers that are due at this moment come first
  return feed.stats();
}

/// The same without each cause that a tower may name.
std::map<std::string, Setting> without_each(const Setting& setting, int tower) {
  std::map<std::string, Setting> result;
  const auto with = [&](const std::string& cause) -> Setting& { return result[cause] = setting; };
  with("copy").copy_ns = 0;
  Setting& slots = with("slots");
  slots.slots = kSteps + 1;
  slots.ahead = 1;
  with("budget").flow.slots = static_cast<int>(kSteps) * setting.towers + 1;
  with("source").flow.read_ns = 0;
  for (std::size_t i = 0; i < setting.flow.stages_ns.size(); ++i)
    with("stage " + test::FluidSource::name_of(i)).flow.stages_ns[i] = 0;
  if (setting.towers > 1) {
    const auto& steps = setting.tower.step_ns;
    const auto at = std::min(static_cast<std::size_t>(tower), steps.size() - 1);
    with("other tower").tower.step_ns = {steps[at]};
  }
  return result;
}

Setting draw(int number) {
  std::mt19937_64 random(static_cast<std::uint64_t>(number));
  const auto whole = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  // From 0.5 to 20 ms, the small as often as the large.
  const auto time = [&] {
    const double power = std::uniform_real_distribution<double>(0, 1)(random);
    return static_cast<std::int64_t>(500 * std::pow(40, power)) * kUs;
  };
  Setting setting;
  setting.number = number;
  setting.towers = static_cast<int>(whole(1, 4));
  setting.mode = static_cast<FeedMode>(whole(0, 2));
  setting.slots = static_cast<int>(whole(1, 4));
  setting.ahead = static_cast<int>(whole(0, setting.slots));
  setting.copy_ns = time();
  setting.flow.threads = static_cast<int>(whole(1, 8));
  setting.flow.readers = static_cast<int>(whole(0, 4));
  setting.flow.read_ns = time();
  setting.flow.stages_ns = {setting.flow.threads * time(), setting.flow.threads * time()};
  setting.flow.slots = static_cast<int>(whole(1, 6)) +
                       (setting.mode == FeedMode::per_tower ? setting.towers - 1 : 0);
  if (setting.mode == FeedMode::per_tower) {  // N batches for each step
    setting.flow.read_ns /= setting.towers;
    for (std::int64_t& stage : setting.flow.stages_ns) stage /= setting.towers;
  }
  if (whole(0, 2) == 0) {
    setting.flow.slow_every = whole(3, 8);
    setting.flow.slow_times = whole(2, 4);
  }
  for (int t = 0; t < setting.towers; ++t) {
    const bool alike = t > 0 && whole(0, 1) == 0;
    setting.tower.step_ns.push_back(alike ? setting.tower.step_ns[0] : time());
  }
  if (whole(0, 3) == 0) setting.tower.between_ns = time() / 4;
  if (whole(0, 3) == 0) setting.tower.second_stream_ns = time();
  if (whole(0, 2) == 0) {
    setting.tower.slow_every = whole(3, 8);
    setting.tower.slow_times = whole(2, 4);
  }
  return setting;
}

std::string text_of(const Setting& s) {
  std::string text = std::to_string(s.number) + ": " + std::to_string(s.towers) + " towers, mode " +
                     std::to_string(static_cast<int>(s.mode)) + ", slots " +
                     std::to_string(s.slots) + "+" + std::to_string(s.ahead) + ", host " +
                     std::to_string(s.flow.slots) + ", us: copy " +
                     std::to_string(s.copy_ns / kUs) + ", read " +
                     std::to_string(s.flow.read_ns / kUs) + "/" + std::to_string(s.flow.readers);
  for (const std::int64_t stage : s.flow.stages_ns)
    text += ", stage " + std::to_string(stage / kUs);
  text += "/" + std::to_string(s.flow.threads) + ", slow " + std::to_string(s.flow.slow_times) +
          " of " + std::to_string(s.flow.slow_every) + "; steps";
  for (const std::int64_t step : s.tower.step_ns) text += " " + std::to_string(step / kUs);
  return text + ", slow " + std::to_string(s.tower.slow_times) + " of " +
         std::to_string(s.tower.slow_every) + ", between " +
         std::to_string(s.tower.between_ns / kUs) + ", second " +
         std::to_string(s.tower.second_stream_ns / kUs);
}

double gain_of(const TowerStats& tower, const std::string& cause) {
  for (const auto& [name, seconds] : tower.gains)
    if (name == cause) return seconds;
  return 0;
}

void expect_sums(const TowerStats& tower) {
  const auto in_ns = [](double seconds) { return std::llround(seconds * 1e9); };
  std::int64_t charged = 0;
  for (const auto& [name, seconds] : tower.causes) charged += in_ns(seconds);
  EXPECT_EQ(charged, in_ns(tower.stall_s));
  EXPECT_EQ(in_ns(tower.stall_s) + in_ns(tower.step_s) + in_ns(tower.other_s), in_ns(tower.wall_s));
}

double wall_of(const FeedStats& stats) {
  double wall = 0;
  for (const TowerStats& tower : stats.towers) wall = std::max(wall, tower.wall_s);
  return wall;
}

/// Fifty settings each.
class Gains : public testing::TestWithParam<int> {
 protected:
  /// What doing without it saved one tower, and all together; by cause.
  struct Saved {
    double tower = 0;
    double all = 0;
  };
  void compare(const FeedStats& run, int t, const std::map<std::string, Saved>& saved);
  static void expect_named(const FeedStats& run, int t, const std::map<std::string, Saved>& saved);
  int compared_ = 0;
};

// Beside what doing without saves stands what half as much of the cause does.
void expect_half(const Setting& setting, const FeedStats& run) {
  Setting half = setting;
  const std::string& cause = run.verdict.cause;
  if (cause == "copy") {
    half.copy_ns /= 2;
  } else if (cause == "slots") {
    ++half.slots;
  } else if (cause == "budget") {
    half.flow.slots *= 2;
  } else {
    return;
  }
  double elements = 0;
  for (const TowerStats& tower : run.towers) elements += static_cast<double>(tower.elements);
  const double rate = elements / wall_of(simulate(half));
  EXPECT_NEAR(run.verdict.rate_half, rate, 0.02 * rate) << cause;
}

void Gains::compare(const FeedStats& run, int t, const std::map<std::string, Saved>& saved) {
  const TowerStats& tower = run.towers[static_cast<std::size_t>(t)];
  for (const auto& [cause, seconds] : saved) {
    const double gain = gain_of(tower, cause);
    if (std::max(gain, seconds.tower) <= 0.02 * tower.wall_s) continue;
    ++compared_;
    EXPECT_NEAR(gain, seconds.tower, 0.1 * seconds.tower)
        << cause << " of tower " << t << ", of " << tower.wall_s << " s";
  }
}

void Gains::expect_named(const FeedStats& run, int t, const std::map<std::string, Saved>& saved) {
  const TowerStats& tower = run.towers[static_cast<std::size_t>(t)];
  const auto of_tower = [](const auto& a, const auto& b) {
    return a.second.tower < b.second.tower;
  };
  const auto best = std::max_element(saved.begin(), saved.end(), of_tower);
  const auto named =
      std::ranges::max_element(tower.gains, {}, &std::pair<std::string, double>::second);
  if (best != saved.end() && best->second.tower > 0.02 * tower.wall_s) {
    ASSERT_NE(named, tower.gains.end());
    EXPECT_GE(saved.at(named->first).tower, 0.9 * best->second.tower) << named->first;
  }
  if (run.verdict.cause == "other tower") return;  // of which only one tower's is tried
  double most = 0;
  for (const auto& [cause, seconds] : saved)
    if (cause != "other tower") most = std::max(most, seconds.all);
  if (most <= 0.025 * wall_of(run)) return;
  ASSERT_NE(run.verdict.cause, "") << "tried saved " << most;
  ASSERT_TRUE(saved.contains(run.verdict.cause)) << run.verdict.cause;
  const double all = saved.at(run.verdict.cause).all;
  EXPECT_GE(all, 0.9 * most) << run.verdict.cause;
  EXPECT_NEAR(run.verdict.gain_s, all, 0.1 * all);
  EXPECT_LE(run.verdict.rate_half, 1.0001 * run.verdict.rate_then);
}

// What is said to bring nothing is tried in every fifth setting.
TEST_P(Gains, AreWhatTheSameRunWithoutTheCauseSaves) {
  constexpr int kSettings = 50;
  for (int number = GetParam(); number < GetParam() + kSettings; ++number) {
    const Setting setting = draw(number);
    SCOPED_TRACE(text_of(setting));
    const FeedStats run = simulate(setting);
    for (const TowerStats& tower : run.towers) expect_sums(tower);
    const int t = number % setting.towers;
    const TowerStats& tower = run.towers[static_cast<std::size_t>(t)];
    std::map<std::string, Saved> saved;
    for (const auto& [cause, changed] : without_each(setting, t)) {
      const bool said = gain_of(tower, cause) > 0.015 * tower.wall_s || cause == run.verdict.cause;
      if (!said && number % 5 != 0) continue;
      const FeedStats without = simulate(changed);
      saved[cause] = {tower.wall_s - without.towers[static_cast<std::size_t>(t)].wall_s,
                      wall_of(run) - wall_of(without)};
    }
    compare(run, t, saved);
    expect_named(run, t, saved);
    if (number % 4 == 0) expect_half(setting, run);
  }
  std::printf("figure: %d gains compared\n", compared_);
  EXPECT_GT(compared_, kSettings);
}

INSTANTIATE_TEST_SUITE_P(Settings, Gains, testing::Range(0, 500, 50));

}  // namespace
}  // namespace penstock
