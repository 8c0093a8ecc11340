// Sixteen situations that are made on purpose, on simulated time: each verdict names what was made,
// and what it promises is what doing something about it brings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "report/prizes.h"
#include "report/verdict.h"
#include "staging/feed_impl.h"
#include "staging/host/host_device.h"
#include "tests/staging/fluid.h"
#include "tests/staging/simulated_towers.h"
#include "tools/penstock/report/report.h"

namespace penstock::tool {
namespace verdict_table_test {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kBatches = 60;
constexpr std::int64_t kRows = 16;
constexpr double kPixels = 0.3;  // of a stage that decodes: what is done to the pixels then

/// An input on four threads and as many readers that keeps a step of 10 ms fed.
struct Situation {
  test::Flow flow{.batches = kBatches,
                  .rows = kRows,
                  .read_ns = 8 * kMs,
                  .stages_ns = {10 * kMs, 10 * kMs},
                  .readers = 4,
                  .threads = 4,
                  .slots = 6};
  test::TowerTimes tower{.step_ns = {10 * kMs}};
  std::int64_t copy_ns = kMs;
  int slots = 2;
  int ahead = -1;
  SlotsWanted wanted{};  ///< had the budget had room
  /// Of the time in which threads were busy they had a CPU, and waited for one.
  double ran = 1;
  double waited = 0;
  double throttled = 0;  ///< of the run
  double others = 0;     ///< of the CPUs' time
};

Report run(const Situation& made) {
  VirtualClock clock;
  Report report;
  report.of_program = true;
  std::vector<DevicePtr> devices = {
      HostDevice::make({.clock = &clock, .unified = false, .latency_ns = made.copy_ns})};
  std::vector<BatchSourcePtr> sources;
  sources.push_back(std::make_unique<test::FluidSource>(made.flow, clock));
  FeedOptions options;
  options.slots = report.device_slots = made.slots;
  options.ahead = made.ahead;
  Feed feed(std::make_unique<Feed::Impl>(
      Feed::Impl::Parts{.sources = std::move(sources),
                        .batches = Spec({{"x", DType::u8, Shape({-1, made.flow.row_bytes})}}),
                        .room = kRows,
                        .rules = {.rows = kRows},
                        .devices = devices,
                        .options = options,
                        .wanted = made.wanted}));
  test::take_all(feed, devices, clock, made.tower);
  clock.sleep_until(clock.now() + 1);
  FeedStats stats = feed.stats();
  report.batches = kBatches;
  report.elements = kBatches * kRows;
  report.wall_s = stats.towers[0].wall_s;
  report.first_batch_s =
      stats.towers[0].other_s - 1e-9 * static_cast<double>(kBatches * made.tower.between_ns);
  report.wait_s = report.first_batch_s + stats.towers[0].stall_s;
  report.cpus = 4;
  report.stats = stats.run;
  report.slot_bytes = 7 << 20;
  report.slots_wanted = stats.host_slots_wanted;
  report.stats.memory.budget_bytes = static_cast<std::uint64_t>(made.flow.slots) * (8 << 20);
  if (made.flow.decodes) {
    report.decoding.images.jpeg = kBatches * kRows;
    report.decoding.timed_s = 1;
    report.decoding.timed_pixels_s = kPixels;
  }
  double busy = 0;
  for (std::size_t i = 1; i < stats.run.stages.size(); ++i) busy += stats.run.stages[i].busy_s;
  report.starved = {.ran_s = made.ran * busy,
                    .waited_s = made.waited * busy,
                    .throttled_s = made.throttled * report.wall_s,
                    .others_s = made.others * report.wall_s * report.cpus};
  report.cpu_s = report.starved.ran_s;
  report.feed = stats.verdict;
  report.towers = std::move(stats.towers);
  return report;
}

struct Case {
  const char* name;
  const char* cause;
  const char* says;  ///< in the verdict's text
  std::function<void(Situation&)> make;
  std::function<void(Situation&)> half = nullptr;  ///< does something about half of it
};

void PrintTo(const Case& made, std::ostream* out) {
  *out << made.name;
}

class VerdictTable : public testing::TestWithParam<Case> {};

TEST_P(VerdictTable, NamesWhatWasMade) {
  const Case& made = GetParam();
  Situation situation;
  made.make(situation);
  const Report report = run(situation);
  const Verdict said = verdict(report);
  EXPECT_EQ(said.cause, made.cause) << said.text;
  EXPECT_THAT(said.text, testing::HasSubstr(made.says));
  if (!made.half) return;
  made.half(situation);
  const double rate = run(situation).elements_per_second();
  EXPECT_NEAR(said.rate_half, rate, 0.2 * (rate - report.elements_per_second()));
  EXPECT_GE(1.001 * said.rate_then, said.rate_half) << "what doing without it brings is a bound";
}

/// Records whose decoding takes so much of the images'.
void pack(Situation& situation, double left) {
  if (!situation.flow.decodes) return;
  auto& stage = situation.flow.stages_ns[0];
  stage = std::llround(static_cast<double>(stage) * (kPixels + left * (1 - kPixels)));
  situation.flow.read_ns = situation.flow.read_ns * 3 / 2;
}

// Each change is made, whatever the verdict is.
TEST_P(VerdictTable, BoundsWhatEachChangeBrings) {
  const Case& made = GetParam();
  const std::vector<std::pair<std::string, std::function<void(Situation&)>>> changes{
      {"a free input",
       [](Situation& s) {
         s.flow.read_ns = s.flow.memory_ns = 0;
         for (std::int64_t& stage : s.flow.stages_ns) stage = 0;
       }},
      {"one more core", [](Situation& s) { ++s.flow.threads; }},
      {"twice the memory",
       [](Situation& s) {
         s.flow.slots *= 2;
         s.slots = std::max(s.slots, std::min(2 * s.slots, s.wanted.slots));
         s.flow.memory_ns /= 2;
       }},
      {"images packed as records", [](Situation& s) { pack(s, 0); }},
      {"images packed as records", [](Situation& s) { pack(s, 0.5); }},
      {"steps twice as fast", [](Situation& s) {
         for (std::int64_t& step : s.tower.step_ns) step /= 2;
       }}};
  Situation situation;
  made.make(situation);
  const Report report = run(situation);
  const double now = report.elements_per_second();
  for (const auto& [change, make] : changes) {
    Situation changed = situation;
    make(changed);
    const double rate = run(changed).elements_per_second();
    double low = now;
    double high = now;
    for (const Prize& prize : prizes(report)) {
      if (prize.change != change) continue;
      low = prize.low;
      high = prize.high;
    }
    EXPECT_GE(rate, 0.95 * low) << change << ", now " << now;
    const bool knows = cpu_share(report) == 1 || change != "one more core";
    EXPECT_LE(rate, knows ? 1.05 * high : HUGE_VAL) << change << ", now " << now;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Situations, VerdictTable,
    testing::Values(Case{"slow_disk", "source", "reads under way",
                         [](Situation& s) { s.flow.read_ns = 120 * kMs; },
                         [](Situation& s) { s.flow.read_ns /= 2; }},
                    Case{"few_io_threads", "source", "--io-threads",
                         [](Situation& s) {
                           s.flow.readers = 1;
                           s.flow.read_ns = 30 * kMs;
                         },
                         [](Situation& s) { s.flow.readers = 2; }},
                    Case{"one_thread", "stage map[1]", "raise --threads",
                         [](Situation& s) {
                           s.flow.threads = 1;
                           s.flow.stages_ns = {22 * kMs, 2 * kMs};
                         },
                         [](Situation& s) { s.flow.stages_ns[0] /= 2; }},
                    Case{"heavy_map", "stage map[2]", "less work in that stage",
                         [](Situation& s) { s.flow.stages_ns[1] = 100 * kMs; },
                         [](Situation& s) { s.flow.stages_ns[1] /= 2; }},
                    Case{"images", "stage map[1] decode", "no larger than they are used",
                         [](Situation& s) {
                           s.flow.decodes = true;
                           s.flow.stages_ns[0] = 120 * kMs;
                         },
                         [](Situation& s) { s.flow.stages_ns[0] /= 2; }},
                    Case{"images_behind_reads", "stage map[1] decode",
                         "no larger than they are used",
                         [](Situation& s) {
                           s.flow.decodes = true;
                           s.flow.read_ns = 60 * kMs;
                           s.flow.stages_ns[0] = 80 * kMs;
                         }},
                    Case{"slow_consumer", "step", "a faster input would change nothing",
                         [](Situation& s) { s.tower.between_ns = 20 * kMs; }},
                    Case{"slow_step", "step", "a faster input would change nothing",
                         [](Situation& s) { s.tower.step_ns = {40 * kMs}; }},
                    Case{"slow_copy", "copy", "Copies to host:0",
                         [](Situation& s) { s.copy_ns = 30 * kMs; },
                         [](Situation& s) { s.copy_ns /= 2; }},
                    Case{"little_memory", "budget", "--memory",
                         [](Situation& s) {
                           s.flow.stages_ns = {12 * kMs, 12 * kMs};
                           s.flow.slow_every = 4;
                           s.flow.slow_times = 3;
                           s.flow.slots = 1;
                           s.slots = 1;
                           s.wanted = {2, 1};
                           s.copy_ns = 3 * kMs;
                         },
                         [](Situation& s) {
                           s.flow.slots = 2;
                           s.slots = 2;
                         }},
                    Case{"few_slots", "slots", "--device-slots 2",
                         [](Situation& s) {
                           s.slots = 1;
                           s.copy_ns = 9 * kMs;
                           s.tower.step_ns = {10 * kMs};
                         },
                         [](Situation& s) { s.slots = 2; }},
                    Case{"noisy_neighbour", "cpu", "other processes",
                         [](Situation& s) {
                           s.flow.stages_ns = {40 * kMs, 40 * kMs};
                           s.ran = 0.25;
                           s.waited = 0.75;
                           s.others = 0.75;
                         },
                         [](Situation& s) {
                           s.flow.stages_ns = {25 * kMs, 25 * kMs};
                         }},
                    Case{"threads_without_a_cpu", "stage map[2]", "threads waited for a CPU in 50%",
                         [](Situation& s) {
                           s.flow.stages_ns[1] = 100 * kMs;
                           s.ran = 0.5;
                           s.waited = 0.5;
                         },
                         [](Situation& s) { s.flow.stages_ns[1] /= 2; }},
                    Case{"cpu_quota", "cpu", "a quota stopped them",
                         [](Situation& s) {
                           s.flow.stages_ns = {40 * kMs, 40 * kMs};
                           s.ran = 0.25;
                           s.waited = 0.75;
                           s.throttled = 0.7;
                         },
                         [](Situation& s) {
                           s.flow.stages_ns = {25 * kMs, 25 * kMs};
                         }},
                    Case{"cold_cache", "source", "--io-threads",
                         [](Situation& s) {
                           s.flow.read_ns = 36 * kMs;
                           s.flow.stages_ns = {kMs, kMs};
                           s.flow.cold = kBatches / 2;
                           s.flow.slow_times = 10;
                         },
                         [](Situation& s) { s.flow.read_ns /= 2; }},
                    Case{"one_straggling_shard", "source", "--io-threads",
                         [](Situation& s) {
                           s.flow.read_ns = 32 * kMs;
                           s.flow.stages_ns = {kMs, kMs};
                           s.flow.slow_every = 10;
                           s.flow.slow_times = 20;
                         },
                         [](Situation& s) { s.flow.read_ns /= 2; }},
                    Case{"budget_held_by_a_zip", "budget", "--memory",
                         [](Situation& s) { s.flow.memory_ns = 30 * kMs; },
                         [](Situation& s) { s.flow.memory_ns /= 2; }},
                    Case{"lock_in_a_map", "stage map[2]", "a lock",
                         [](Situation& s) {
                           s.flow.stages_ns[1] = 100 * kMs;
                           s.ran = 0.3;
                         },
                         [](Situation& s) { s.flow.stages_ns[1] /= 2; }}),
    [](const auto& made) { return std::string(made.param.name); });

/// Without devices, and so without a simulation: elements so small that moving them is all.
TEST(VerdictTable, NamesTinyElements) {
  Report report;
  report.elements = 10'000'000;
  report.batches = 10'000;
  report.wall_s = report.wait_s = 10;
  report.cpu_s = 11;
  report.stats.threads = 2;
  report.stats.stages = {{"range[0]", 10'000'000, 0, 0.5, 0, ""},
                         {"map[1] identity", 10'000'000, 0, 1, 0, ""}};
  EXPECT_EQ(verdict(report).cause, "hand-over");
}

}  // namespace verdict_table_test
}  // namespace penstock::tool
