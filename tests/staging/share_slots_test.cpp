// Training and validation on one pool of slots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "staging/area.h"
#include "staging/staging_pool.h"
#include "tests/staging/take.h"

namespace penstock {
namespace {

using test::Numbers;
using test::numbers_dataset;
using test::some_devices;
using Member = StagingPool::Member;

/// A pool and its members, so that its rules can be written down.
class Rules {
 public:
  Rules(int slots, int members)
      : pool_(device_, {.bytes = 64, .slots = slots, .members = members}) {
    members_.resize(static_cast<std::size_t>(members), Member{.most = slots});
    for (Member& member : members_) pool_.join(member);
  }
  bool take(std::size_t member, bool at_end = false) {
    StagingSlot* slot = pool_.take(members_[member], at_end);
    if (slot != nullptr) held_.emplace_back(member, slot);
    return slot != nullptr;
  }
  void ask(std::size_t member) { pool_.ask(&members_[member]); }
  void give_back(std::size_t member) {
    const auto found = std::find_if(held_.begin(), held_.end(),
                                    [&](const auto& held) { return held.first == member; });
    pool_.give_back(members_[member], *found->second);
    held_.erase(found);
  }
  void leave(std::size_t member) { pool_.leave(members_[member]); }

 private:
  DevicePtr device_ = HostDevice::make({.unified = false});
  StagingPool pool_;
  std::vector<Member> members_;
  std::vector<std::pair<std::size_t, StagingSlot*>> held_;
};

TEST(StagingPool, SlotsOfEachMember) {
  Rules on(3, 2);
  EXPECT_TRUE(on.take(0));
  EXPECT_FALSE(on.take(0)) << "nobody asks it";
  on.ask(0);
  EXPECT_FALSE(on.take(0, true)) << "it is at an end";
  EXPECT_TRUE(on.take(0));
  EXPECT_FALSE(on.take(0)) << "the last is the other's";
  EXPECT_TRUE(on.take(1));
  on.ask(1);
  EXPECT_FALSE(on.take(1));
  on.give_back(0);
  EXPECT_TRUE(on.take(1));
  on.give_back(0);
  EXPECT_FALSE(on.take(1)) << "the other has none";
  EXPECT_TRUE(on.take(0));
  for (int i = 0; i < 2; ++i) on.give_back(1);
  on.leave(1);
  on.ask(0);
  EXPECT_TRUE(on.take(0));
  EXPECT_TRUE(on.take(0)) << "alone";
}

TEST(StagingPool, SlotsOfLateMembers) {
  const DevicePtr device = HostDevice::make({.unified = false});
  StagingPool pool(device, {.bytes = 64, .slots = 2, .members = 2});
  EXPECT_EQ(pool.most(), 1);
  Member first{.most = 2};
  pool.join(first);
  pool.ask(&first);
  StagingSlot* slot = pool.take(first, false);
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(pool.take(first, false), nullptr);
  pool.give_back(first, *slot);
}

TEST(StagingPool, TooLittleMemory) {
  const auto make = [](std::uint64_t fails_from, std::uint64_t memory_bytes) {
    const DevicePtr device =
        HostDevice::make({.unified = false, .faults = {.fail_allocation = fails_from}});
    return StagingPool(device,
                       {.bytes = 64, .slots = 4, .members = 2, .memory_bytes = memory_bytes})
        .slots();
  };
  EXPECT_EQ(make(0, 0), 4);
  EXPECT_EQ(make(0, 3 * 64 + 63), 3);
  EXPECT_EQ(make(4, 0), 3);
  for (const auto& [fails, memory] : {std::pair<int, int>{0, 127}, {2, 0}}) {
    EXPECT_EQ(test::code_of([&, f = fails, m = memory] {
                make(static_cast<std::uint64_t>(f), static_cast<std::uint64_t>(m));
              }),
              ErrorCode::resource_exhausted);
  }
}

/// The first number of the tower's next batch; -1: an end.
std::int64_t take(Feed& feed, int tower, StreamView stream) {
  std::optional<StagedBatch> batch = feed.next(tower);
  if (!batch) return -1;
  batch->wait(stream);
  return test::read<std::int64_t>(stream, (*batch)[0])[0];
}

TEST(ShareSlots, TrainingAndValidationInTurn) {
  constexpr int kSlots = 3;
  const std::vector<DevicePtr> two = some_devices(2, false);
  FeedOptions several;
  several.run.epochs = 4;
  std::vector<Feed> feeds = share_slots(
      {{numbers_dataset(4'000, 4), two, {}}, {numbers_dataset(24, 4), two, several}}, kSlots);
  Feed& training = feeds[0];
  Feed& validation = feeds[1];
  for (const DevicePtr& device : two) EXPECT_EQ(device->counters().allocations, kSlots);
  const Stream first(two[0], "a");
  const Stream second(two[1], "b");
  const auto stream_of = [&](int t) { return t == 0 ? first.view() : second.view(); };
  std::int64_t expected = 0;
  for (int round = 0; round < 4; ++round) {
    for (int step = 0; step < 20; ++step) {
      for (int t = 0; t < 2; ++t, expected += 4)
        ASSERT_EQ(take(training, t, stream_of(t)), expected) << "round " << round;
    }
    for (int step = 0; step < 3; ++step) {
      for (int t = 0; t < 2; ++t)
        ASSERT_EQ(take(validation, t, stream_of(t)), 8 * step + 4 * t) << "round " << round;
    }
    for (int t = 0; t < 2; ++t) EXPECT_EQ(take(validation, t, stream_of(t)), -1);
  }
  EXPECT_TRUE(validation.ended(0));
  for (const DevicePtr& device : two) {
    EXPECT_EQ(device->counters().allocations, kSlots);
    EXPECT_TRUE(static_cast<HostDevice&>(*device).hazards().empty());
  }
}

/// That so many batches are copied to the device, and no more a moment later. `read`: as many were
/// copied back by the test.
void expect_staged(const DevicePtr& device, std::uint64_t read, std::uint64_t expected,
                   const char* why) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (device->counters().copies < read + expected && std::chrono::steady_clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(device->counters().copies - read, expected) << why;
}

TEST(ShareSlots, PrefetchedBatches) {
  const DevicePtr device = HostDevice::make({.unified = false});
  const Stream stream(device, "tower");
  std::vector<Feed> feeds = share_slots(
      {{numbers_dataset(4'000, 4), {device}, {}}, {numbers_dataset(4'000, 4), {device}, {}}}, 3);
  expect_staged(device, 0, 2, "nobody was asked: one each");
  EXPECT_EQ(take(feeds[0], 0, stream), 0);
  expect_staged(device, 1, 1 + 2 + 1, "one is used, then two and one wait");
  EXPECT_EQ(take(feeds[1], 0, stream), 0);
  expect_staged(device, 2, 1 + 2 + 1 + 1, "the first's two still wait");
  for (std::int64_t k = 1; k < 5; ++k) EXPECT_EQ(take(feeds[1], 0, stream), 4 * k);
  expect_staged(device, 6, 1 + 2 + 5 + 1, "the second took four more");
  EXPECT_EQ(take(feeds[0], 0, stream), 4);
  EXPECT_EQ(take(feeds[0], 0, stream), 8);
  feeds.pop_back();
  EXPECT_EQ(take(feeds[0], 0, stream), 12) << "continues alone";
}

TEST(ShareSlots, TowerForValidationAlone) {
  const std::vector<DevicePtr> three = some_devices(3, true);
  std::vector<Feed> feeds = share_slots({{numbers_dataset(60, 2), {three[0], three[1]}, {}},
                                         {numbers_dataset(10, 2), {three[2]}, {}}},
                                        2);
  EXPECT_EQ(feeds[0].towers(), 2);
  EXPECT_EQ(feeds[1].towers(), 1);
  const test::Taken validated = test::take_all(feeds[1], 0);
  EXPECT_EQ(validated[0].size(), 5U);
  const std::vector<test::Taken> trained = test::take_all(feeds[0]);
  EXPECT_EQ(trained[0][0].size(), 15U);
  EXPECT_EQ(trained[1][0].size(), 15U);
}

TEST(ShareSlots, RestoredPositions) {
  const std::vector<DevicePtr> devices = some_devices(1, true);
  const Stream stream(devices[0], "tower");
  std::vector<FeedInput> inputs{{numbers_dataset(400, 4), devices, {}},
                                {numbers_dataset(200, 4), devices, {}}};
  {
    std::vector<Feed> feeds = share_slots(inputs, 3);
    for (int k = 0; k < 7; ++k) take(feeds[0], 0, stream);
    for (int k = 0; k < 3; ++k) take(feeds[1], 0, stream);
    for (std::size_t i = 0; i < 2; ++i) inputs[i].state = feeds[i].save();
  }
  std::vector<Feed> feeds = share_slots(inputs, 4);
  EXPECT_EQ(take(feeds[0], 0, stream), 28);
  EXPECT_EQ(take(feeds[1], 0, stream), 12);
}

TEST(ShareSlots, DifferentBatchesAndTooFewSlots) {
  const std::vector<DevicePtr> devices = some_devices(1, false);
  const std::vector<FeedInput> inputs{{numbers_dataset(64, 32), devices, {}},
                                      {numbers_dataset(12, 3), devices, {}}};
  EXPECT_EQ(test::code_of([&] { share_slots(inputs, 1); }), ErrorCode::invalid_argument);
  EXPECT_EQ(test::code_of([&] { share_slots(inputs, 2, 256); }), ErrorCode::resource_exhausted);
  std::vector<Feed> feeds = share_slots(inputs, 2);
  const Stream stream(devices[0], "tower");
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(take(feeds[0], 0, stream), 32 * k);
    EXPECT_EQ(take(feeds[1], 0, stream), 3 * k);
  }
}

}  // namespace
}  // namespace penstock
