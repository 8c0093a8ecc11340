#include "tools/penstock/report/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/penstock/support/terminal.h"

namespace penstock::tool {
namespace {

using testing::HasSubstr;

Stats stats_at(std::uint64_t elements, double busy_s) {
  Stats stats;
  stats.elements = elements;
  stats.threads = 2;
  stats.memory = {96 << 20, 73 << 20, 73 << 20};
  stats.stages.push_back({"tar[0]", elements, elements * 1000, busy_s / 10, 0, "output"});
  stats.stages.push_back({"map[1] decode_image", elements, elements * 1000, busy_s, 0, ""});
  return stats;
}

TEST(Meter, AveragesOverItsWindow) {
  Meter meter(1.0);
  EXPECT_TRUE(meter.rates().stages.empty());
  meter.add(0, stats_at(0, 0));
  EXPECT_EQ(meter.rates().elements_per_s, 0);
  for (int i = 1; i <= 40; ++i)
    meter.add(i * 0.1, stats_at(static_cast<std::uint64_t>(i <= 20 ? i * 10 : 200 + (i - 20) * 50),
                                i * 0.1));
  EXPECT_NEAR(meter.rates().elements_per_s, 500, 1);
  EXPECT_NEAR(meter.rates().stages[1].busy_threads, 1, 1e-6);
  EXPECT_NEAR(meter.rates().stages[0].items_per_s, 500, 1);
  const auto history = meter.history(100);
  ASSERT_GT(history.size(), 8U);
  EXPECT_NEAR(history.front(), 100, 1);
  EXPECT_NEAR(history.back(), 500, 1);
  EXPECT_EQ(meter.history(3).size(), 3U);
}

TEST(Timeline, IsBoundedAndKeepsTheWholeRun) {
  Timeline timeline;
  EXPECT_TRUE(timeline.points().empty());
  for (int i = 0; i <= 50'000; ++i)
    timeline.add(i * 0.1, stats_at(static_cast<std::uint64_t>(i) * 10, i * 0.1));
  const auto points = timeline.points();
  EXPECT_GT(points.size(), 1000U);
  EXPECT_LE(points.size(), 4096U);
  EXPECT_LT(points.front().at_s, 10);
  EXPECT_GT(points.back().at_s, 4990);
  for (const Timeline::Point& point : points) {
    EXPECT_NEAR(point.elements_per_s, 100, 1e-3);
    ASSERT_EQ(point.busy_threads.size(), 2U);
    EXPECT_NEAR(point.busy_threads[1], 1, 1e-6);
  }
}

// A batch in the last moment is no rush.
TEST(Timeline, HasNoSpikeAtTheEnd) {
  Timeline timeline;
  for (int i = 0; i <= 10; ++i)
    timeline.add(i * 0.1, stats_at(static_cast<std::uint64_t>(i) * 10, i * 0.1));
  timeline.add(1.001, stats_at(110, 1.001));
  const auto points = timeline.points();
  ASSERT_EQ(points.size(), 10U);
  EXPECT_NEAR(points.back().elements_per_s, 20 / 0.101, 1e-6);
  EXPECT_EQ(points.back().at_s, 1.001);
}

TEST(Screen, FitsEveryTerminal) {
  Meter meter;
  for (int i = 0; i < 100; ++i)
    meter.add(i * 0.1, stats_at(static_cast<std::uint64_t>(i), i * 0.2));
  for (const bool colour : {false, true}) {
    const Scene scene{"penstock profile · tar a-very-long-name-of-shards-*.tar", 3, 100, colour};
    for (int width = 1; width <= 200; width += 7) {
      for (const int height : {1, 5, 24}) {
        const auto lines = render(scene, meter, stats_at(100, 20), {1, 50, 10}, width, height);
        EXPECT_LE(lines.size(), static_cast<std::size_t>(std::max(3, height - 1)));
        for (const std::string& line : lines)
          EXPECT_LE(display_width(line), static_cast<std::size_t>(std::max(10, width - 1)))
              << width << ": " << line;
      }
    }
  }
}

TEST(Screen, ShowsWhatHappens) {
  Meter meter;
  meter.add(0, stats_at(0, 0));
  meter.add(1, stats_at(1000, 1.9));
  Stats stats = stats_at(1000, 1.9);
  stats.errors.count = 2;
  const Scene scene{"penstock profile · tar x.tar", 3, 100, false};
  std::string all;
  for (const std::string& line : render(scene, meter, stats, {1, 50, 12.3}, 100, 30))
    all += line + "\n";
  for (const char* text :
       {"tar x.tar", "epoch 2/3", "12.3 s", "1,000 elements", "1.00k/s", "73.0 MiB of 96.0 MiB",
        "2 bad", " 50%", "map[1] decode_image", "95%", "waits: output"})
    EXPECT_THAT(all, HasSubstr(text));
  const std::string line = status_line(scene, meter, stats, {1, 50, 12.3});
  EXPECT_THAT(line, HasSubstr("busiest map[1] decode_image 95%"));
  EXPECT_EQ(line.find('\n'), line.npos);
  EXPECT_EQ(line.find('\x1b'), line.npos);
}

TowerStats tower_at(const char* device, std::uint64_t steps, double step_s, double stall_s) {
  TowerStats tower;
  tower.device = device;
  tower.steps = steps;
  tower.step_s = step_s;
  tower.stall_s = stall_s;
  tower.wall_s = step_s + stall_s;
  tower.causes = {{"slots", 0.5}, {"copy", stall_s > 0 ? stall_s - 0.5 : 0}};
  return tower;
}

TEST(Screen, HasALineForEachTower) {
  Meter meter;
  meter.add(0, stats_at(0, 0), {tower_at("host:0", 10, 9, 1), tower_at("host:1", 10, 9, 1)});
  meter.add(1, stats_at(1000, 1.9),
            {tower_at("host:0", 20, 9.25, 1.75), tower_at("host:1", 30, 9.99, 1.01)});
  const Scene scene{"penstock profile · tar x.tar", 3, 100, false};
  std::string all;
  for (const std::string& line : render(scene, meter, stats_at(1000, 1.9), {1, 50, 12}, 100, 30))
    all += line + "\n";
  for (const char* text : {"tower 0 host:0", "25%", "10/s", "stalls 75%: copy", "tower 1 host:1"})
    EXPECT_THAT(all, HasSubstr(text));
  EXPECT_THAT(status_line(scene, meter, stats_at(1000, 1.9), {1, 50, 12}),
              HasSubstr("host:0 stalls 75%, mostly for copy"));
}

Stats stats_with_workers(std::uint64_t elements, double busy_s) {
  Stats stats = stats_at(elements, 3 * busy_s);
  WorkerStats worker;
  worker.address = "host-b:7070";
  worker.connected = true;
  worker.threads = 4;
  worker.groups = elements / 10;
  worker.elements = elements;
  worker.received_bytes = elements << 20;
  worker.busy_s = busy_s;
  worker.round_trip_s = elements < 1000 ? 0.1 : 0.055;  // of the second half 10 ms
  worker.hedged = 3;
  worker.lost = 2;
  stats.workers = {worker, {.address = "host-c:7070", .problem = "unavailable: nobody listens"}};
  return stats;
}

TEST(Screen, HasALineForEachWorker) {
  Meter meter;
  meter.add(0, stats_with_workers(500, 2));
  meter.add(1, stats_with_workers(1000, 4));
  const Stats stats = stats_with_workers(1000, 4);
  const Scene scene{"penstock profile · tar x.tar", 1, -1, false};
  std::string all;
  for (const std::string& line : render(scene, meter, stats, {0, 50, 12}, 120, 30))
    all += line + "\n";
  for (const char* text : {"worker host-b:7070", " 50%", "500/s", "500.0 MiB/s, way 10.0 ms",
                           "hedged 3, lost 2", "worker host-c:7070", "unavailable: nobody listens"})
    EXPECT_THAT(all, HasSubstr(text));
  // Threads of workers are among those that a stage may have: 6 of 2 and 4.
  EXPECT_THAT(all, HasSubstr("100%"));
  EXPECT_THAT(status_line(scene, meter, stats, {0, 50, 12}),
              HasSubstr("1 of 2 workers, 500.0 MiB/s"));
  for (int width = 1; width <= 200; width += 7)
    for (const std::string& line : render(scene, meter, stats, {0, 50, 12}, width, 30))
      EXPECT_LE(display_width(line), static_cast<std::size_t>(std::max(10, width - 1))) << line;
}

}  // namespace
}  // namespace penstock::tool
