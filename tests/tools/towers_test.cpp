// Simulated towers, and devices that fail under them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/penstock.h>

#include "staging/host/host_device.h"
#include "tools/penstock/run/towers.h"

namespace penstock::tool {
namespace {

Report run_on(std::vector<DevicePtr> devices, TowerSteps steps, FeedOptions options = {}) {
  Report report;
  Feed feed(range(1 << 12).batch(16), std::move(devices), options);
  Towers towers(feed, steps);
  towers.run(report);
  return report;
}

TEST(Towers, TakeEverything) {
  const Report report = run_on(devices("host:0,host:1"), {});
  EXPECT_EQ(report.ending, Ending::finished);
  EXPECT_EQ(report.batches, 256U);
  EXPECT_EQ(report.elements, 1U << 12);
  ASSERT_EQ(report.towers.size(), 2U);
  for (const TowerStats& tower : report.towers) {
    EXPECT_EQ(tower.steps, 128U);
    EXPECT_EQ(tower.elements, 1U << 11);
    EXPECT_NEAR(tower.stall_s + tower.step_s + tower.other_s, tower.wall_s, 0.01 * tower.wall_s);
    double causes = 0;
    for (const auto& [name, seconds] : tower.causes) causes += seconds;
    EXPECT_NEAR(causes, tower.stall_s, 0.01 * tower.stall_s + 1e-9);
  }
}

TEST(Towers, StopAtTheLimitAndTakeTheirTime) {
  const Report report = run_on(devices("host:0,host:1"), {.step_ns = 3'000'000, .batch_limit = 20});
  EXPECT_EQ(report.ending, Ending::batch_limit);
  EXPECT_EQ(report.batches, 20U);
  for (const TowerStats& tower : report.towers) EXPECT_GE(tower.step_s, 0.030);
}

TEST(Towers, LostDevice) {
  std::vector<DevicePtr> two = devices("host:0");
  two.push_back(HostDevice::make(
      {.index = 1, .unified = false, .faults = {.fail_record = 60, .sticky = true}}));
  const Report report = run_on(two, {});
  EXPECT_EQ(report.ending, Ending::device_lost);
  ASSERT_TRUE(report.failure);
  EXPECT_THAT(report.failure->what(), testing::HasSubstr("host:1"));
}

TEST(Towers, HangingCopy) {
  const DevicePtr device = HostDevice::make({.unified = false, .faults = {.hang_copy = 9}});
  FeedOptions options;
  options.watchdog_s = 3;
  Report report;
  Feed feed(range(1 << 12).batch(16), {device}, options);
  std::jthread run([&] {
    Towers towers(feed, {});
    towers.run(report);
  });
  run.join();
  EXPECT_EQ(report.ending, Ending::no_progress);
  ASSERT_TRUE(report.failure);
  EXPECT_THAT(report.failure->what(), testing::HasSubstr("on stream copy has not ended"));
}

}  // namespace
}  // namespace penstock::tool
