// Staging areas where devices fail, hang or are lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/rng.h>

#include "staging/area.h"
#include "tests/staging/batches.h"
#include "tests/staging/beds.h"
#include "tests/support/log_capture.h"

namespace penstock {
namespace {

using test::numbers;
using test::numbers_spec;
constexpr std::int64_t kUs = 1'000;
constexpr std::int64_t kMs = 1'000'000;

TEST(AreaFaults, FailedAllocation) {
  for (std::uint64_t fails = 1; fails <= 4; ++fails) {
    test::LogCapture log;
    const auto device = HostDevice::make({.unified = false, .faults = {.fail_allocation = fails}});
    if (fails == 1) {
      EXPECT_THAT(test::text_of([&] { StagingArea(device, numbers_spec(), 4, {.slots = 4}); }),
                  testing::HasSubstr("bytes of device memory wanted"));
      EXPECT_EQ(device->memory().free_bytes, device->memory().total_bytes);
      continue;
    }
    const Stream compute(device, "compute");
    StagingArea area(device, numbers_spec(), 4, {.slots = 4});
    EXPECT_EQ(area.slots(), static_cast<int>(fails) - 1);
    EXPECT_EQ(log.count(std::to_string(fails - 1) + " of 4 slots"), 1U);
    for (int k = 0; k < 5; ++k) {
      area.put(numbers(k, 4));
      StagedBatch batch = *area.get();
      batch.wait(compute);
      test::expect_numbers(batch, compute, k, 4);
    }
  }
}

TEST(AreaFaults, LostDevice) {
  for (std::uint64_t event = 1; event < 30; event += 4) {
    SCOPED_TRACE(event);
    const auto device =
        HostDevice::make({.unified = false, .faults = {.fail_record = event, .sticky = true}});
    const Stream compute(device, "compute");
    StagingArea area(device, numbers_spec(), 4);
    const auto lost = [](const std::function<void()>& endless) {
      return test::code_of([&] {
        for (;;) endless();
      });
    };
    const Actor producer = device->backend().time().start({0, 100}, [&] {
      EXPECT_EQ(lost([&] { area.put(numbers(0, 4)); }), ErrorCode::device_lost);
    });
    EXPECT_EQ(lost([&] {
                StagedBatch batch = *area.get();
                batch.wait(compute);
                batch.release(compute);
              }),
              ErrorCode::device_lost);
  }
}

TEST(AreaFaults, TransientError) {
  VirtualClock clock;
  const auto device =
      HostDevice::make({.clock = &clock, .unified = false, .faults = {.fail_record = 2}});
  StagingArea area(device, numbers_spec(), 4);
  area.put(numbers(0, 4));  // its ready event is the second record
  clock.sleep_until(kMs);
  EXPECT_EQ(test::code_of([&] { static_cast<void>(area.get()); }), ErrorCode::unavailable);
  area.put(numbers(4, 4));
  EXPECT_EQ(area.get()->sequence(), 0U);
  EXPECT_EQ(area.get()->sequence(), 1U);
}

TEST(AreaFaults, HangingCopy) {
  for (const int slots : {1, 2}) {
    VirtualClock clock;
    const auto device =
        HostDevice::make({.clock = &clock, .unified = false, .faults = {.hang_copy = 5}});
    const Stream compute(device, "compute");
    StagingArea area(device, numbers_spec(), 4, {.slots = slots, .watchdog_s = 5});
    std::string producer_text;
    const Actor producer = clock.start({0, 100}, [&] {
      producer_text = test::text_of([&] {
        for (;;) area.put(numbers(0, 4));
      });
    });
    const std::string text = test::text_of([&] {
      for (;;) {
        StagedBatch batch = *area.get();
        batch.wait(compute);
        compute.view().busy(kMs);
      }
    });
    EXPECT_THAT(text, testing::MatchesRegex("the copy into slot [01] of host:0 on stream copy has "
                                            "not ended for 5.000 s"));
    EXPECT_LT(clock.now(), 11'000 * kMs);
  }
}

TEST(AreaFaults, HangingStep) {
  VirtualClock clock;
  const auto device = HostDevice::make({.clock = &clock, .unified = false});
  const Stream compute(device, "tower 3");
  StagingArea area(device, numbers_spec(), 4, {.slots = 1, .ahead = 1, .watchdog_s = 2});
  area.put(numbers(0, 4));
  {
    StagedBatch batch = *area.get();
    batch.wait(compute);
    compute.view().busy(7'000 * kMs);
  }
  EXPECT_THAT(test::text_of([&] {
                area.put(numbers(0, 4));
                area.put(numbers(0, 4));
                area.put(numbers(0, 4));
              }),
              testing::HasSubstr("work on slot 0 of host:0 on stream tower 3 has not ended"));
}

TEST(AreaFaults, SlowProducer) {
  VirtualClock clock;
  const auto device = HostDevice::make({.clock = &clock, .unified = false});
  StagingArea area(device, numbers_spec(), 4, {.watchdog_s = 1});
  const Actor producer = clock.start({0, 100}, [&] {
    clock.sleep_until(10'000 * kMs);
    area.put(numbers(0, 4));
  });
  EXPECT_TRUE(area.get());
  EXPECT_EQ(clock.now(), 10'000 * kMs);
}

TEST(AreaFaults, HeldSlots) {
  VirtualClock clock;
  const auto device = HostDevice::make({.clock = &clock, .unified = false});
  StagingArea area(device, numbers_spec(), 4, {.slots = 1, .watchdog_s = 5});
  const auto seconds = [&] { return clock.now() / (1'000 * kMs); };
  const Actor producer = clock.start({0, 100}, [&] {
    clock.sleep_until(8'000 * kMs);
    for (int k = 0; k < 2; ++k) area.put(numbers(0, 4));
  });
  std::string text;
  Actor other = clock.start({0, 101}, [&] {
    const std::optional<StagedBatch> second = area.get();  // the slot is held from 8 s to 11 s
    EXPECT_EQ(second->sequence(), 1U);
    EXPECT_EQ(seconds(), 11);
    text = test::text_of([&] { static_cast<void>(area.get()); });
    EXPECT_EQ(seconds(), 16);
  });
  {
    const std::optional<StagedBatch> first = area.get();
    EXPECT_EQ(first->sequence(), 0U);
    EXPECT_EQ(seconds(), 8);
    clock.sleep_until(11'000 * kMs);
  }
  other.reset();
  EXPECT_THAT(text, testing::HasSubstr("all 1 slots are held, and none was released for 5.000 s"));
}

/// Areas are destroyed with copies in flight, permits reserved and batches leased.
TEST(AreaFaults, RandomDestruction) {
  const char* asked = std::getenv("PENSTOCK_DESTROYS");
  const int rounds = asked != nullptr ? std::atoi(asked) : 2'000;
  const auto device =
      HostDevice::make({.unified = false, .bytes_per_s = 2e8, .latency_ns = 20 * kUs});
  const std::vector<Stream> streams = [&] {
    std::vector<Stream> made;
    for (int i = 0; i < 2; ++i) made.emplace_back(device, "compute");
    return made;
  }();
  const std::uint64_t free_before = device->memory().free_bytes;
  for (int round = 0; round < rounds; ++round) {
    Rng rng(7, static_cast<std::uint64_t>(round), 0);
    const auto draw = [&](std::uint32_t below) { return static_cast<int>(rng.below(below)); };
    std::optional<StagedBatch> kept;
    {
      StagingArea area(device, numbers_spec(), 64, {.slots = 1 + draw(3), .ahead = draw(3)});
      const int produced = draw(6);
      const int consumed = draw(6);
      const auto produce = [&] {
        static_cast<void>(test::code_of([&] {
          for (int k = 0; k < produced; ++k) area.put(numbers(k, 1 + k));
          StagingPermit unused = area.reserve();
          area.put_end();
        }));
      };
      Actor producer = device->backend().time().start({0, 100}, produce);
      for (int k = 0; k < std::min(produced, consumed); ++k) {
        std::optional<StagedBatch> batch = area.get();
        if (!batch) break;
        batch->wait(streams[static_cast<std::size_t>(draw(2))]);
        if (draw(4) == 0) streams[0].view().busy(100 * kUs);
        if (draw(5) == 0) kept = std::move(batch);
        if (kept && area.slots() == 1) break;
      }
      area.fail(Error(ErrorCode::cancelled, "enough"));
      producer.reset();
    }
  }
  for (const Stream& stream : streams) stream.view().synchronize();
  EXPECT_EQ(device->memory().free_bytes, free_before);
}

}  // namespace
}  // namespace penstock
