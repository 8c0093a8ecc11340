// Exact times, hazards found, and what a steady state costs: on simulated time where that can be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include <penstock/rng.h>

#include "staging/area.h"
#include "tests/staging/batches.h"
#include "tests/staging/beds.h"
#include "tests/support/log_capture.h"

namespace {

std::atomic<std::uint64_t> g_allocations{0};

}  // namespace

// Counts what the whole program allocates.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* data = std::malloc(bytes == 0 ? 1 : bytes)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept {
  std::free(data);
}

namespace penstock {
namespace {

using test::numbers;
using test::numbers_spec;
constexpr std::int64_t kUs = 1'000;
constexpr std::int64_t kMs = 1'000'000;

// Hazards: one mistake each, put in by the consumer or the producer.

enum class Mistake { none, missing_wait, early_release, no_release_event, mixed_slots };

class Mistakes : public testing::TestWithParam<Mistake> {};

/// Stages batches and reads them on a stream, as a tower does, with or without a mistake.
std::vector<Hazard> hazards_with(Mistake mistake, int slots, std::uint64_t pause_seed) {
  const auto device = HostDevice::make({.unified = false, .check = true});
  const Stream compute(device, "compute");
  const Stream other(device, "other");
  StagingArea area(device, numbers_spec(), 4, {.slots = slots});
  const auto bytes = [](const DeviceTensor& tensor) {
    return std::span<const std::byte>(tensor.data, tensor.nbytes());
  };
  const Rng rng(pause_seed, 0, 0);
  std::vector<DeviceTensor> last_labels;
  const Actor producer = device->backend().time().start({0, 100}, [&] {
    for (int k = 0; k < 12; ++k) area.put(numbers(4 * k, 4));
  });
  for (int k = 0; k < 12; ++k) {
    StagedBatch batch = *area.get();
    // A schedule of its own for each seed.
    device->backend().time().sleep_until(
        device->now() + static_cast<std::int64_t>((pause_seed * 37 + 11 * k) % 3) * 200 * kUs);
    DeviceTensor labels = batch["x"];
    if (mistake == Mistake::mixed_slots && !last_labels.empty()) labels = last_labels.back();
    last_labels.push_back(batch["x"]);
    const auto step = [&](StreamView stream) {
      // Guards would stop the accesses themselves, so the step only says what it would touch.
      device->launch(stream, {.run = {}, .reads = {bytes(labels), bytes(batch["y"])}});
    };
    switch (mistake) {
      case Mistake::none:
      case Mistake::mixed_slots:
        batch.wait(compute);
        step(compute);
        batch.release(compute);
        break;
      case Mistake::missing_wait:
        step(compute);
        batch.release(compute);
        break;
      case Mistake::early_release: {
        const DeviceTensor x = batch["x"];
        batch.wait(compute);
        batch.release(compute);
        device->launch(compute, {.run = {}, .reads = {bytes(x)}});
        break;
      }
      case Mistake::no_release_event: {
        // The second stream is ordered behind the first, but nobody waits for it.
        batch.wait(compute);
        const Event passed(device);
        compute.view().record(passed);
        other.view().wait(passed);
        step(other);
        batch.release(compute);
        break;
      }
    }
  }
  compute.view().synchronize();
  other.view().synchronize();
  return device->hazards();
}

TEST_P(Mistakes, AreFoundInEverySchedule) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Hazard> found = hazards_with(GetParam(), 2, seed);
    if (GetParam() == Mistake::none) {
      EXPECT_TRUE(found.empty()) << found.front().to_string();
      continue;
    }
    ASSERT_FALSE(found.empty());
    const bool names_both = found[0].to_string().find("area_proof_test.cpp") != std::string::npos &&
                            found[0].to_string().find("area_put.cpp") != std::string::npos;
    EXPECT_TRUE(names_both) << found[0].to_string();
    if (GetParam() == Mistake::missing_wait) {
      EXPECT_EQ(found[0].kind, Hazard::Kind::read_before_ready);
    }
    if (GetParam() == Mistake::no_release_event) {
      EXPECT_EQ(found[0].kind, Hazard::Kind::overwritten_in_use);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Mistakes,
                         testing::Values(Mistake::none, Mistake::missing_wait,
                                         Mistake::early_release, Mistake::no_release_event,
                                         Mistake::mixed_slots));

TEST(SlotGuardDeathTest, ASlotOutsideALeaseCantBeTouched) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const auto device = HostDevice::make({.unified = false, .check = true});
        const Stream compute(device, "compute");
        StagingArea area(device, numbers_spec(), 4);
        area.put(numbers(0, 4));
        const std::byte* data = nullptr;
        {
          StagedBatch batch = *area.get();
          batch.wait(compute);
          compute.view().synchronize();
          data = batch["x"].data;
          if (static_cast<int>(*data) > 1) std::exit(0);  // in the lease: fine
        }
        device->backend().time().sleep_until(device->now() + 300 * kMs);
        std::exit(static_cast<int>(*data));
      },
      "");
}

// Steady state.

struct Costs {
  double allocations = 0;  ///< a batch
  std::uint64_t host_waits = 0;
  std::uint64_t device_allocations = 0;
};

Costs costs_of(HostOptions options, int batches, std::int64_t rows) {
  const auto device = HostDevice::make(std::move(options));
  const Stream compute(device, "compute");
  StagingArea area(device, numbers_spec(), rows, {.slots = 2});
  std::vector<Element> pool;
  for (int i = 0; i < 8; ++i) pool.push_back(numbers(i, rows));
  constexpr int kWarm = 2'000;
  const Actor producer = device->backend().time().start({0, 100}, [&] {
    for (int k = 0; k < batches + kWarm; ++k) {
      Piece piece{pool[static_cast<std::size_t>(k) % pool.size()], 0, rows};
      area.put(area.reserve(), {&piece, 1});
    }
  });
  std::uint64_t before = 0;
  for (int k = 0; k < batches + kWarm; ++k) {
    if (k == kWarm) before = g_allocations.load();
    StagedBatch batch = *area.get();
    batch.wait(compute);
    compute.view().busy(0);
    batch.release(compute);
  }
  const std::uint64_t after = g_allocations.load();
  return {static_cast<double>(after - before) / batches, device->counters().host_waits,
          device->counters().allocations};
}

TEST(SteadyState, AllocatesNothingAndNobodyButTheReaperWaitsForTheDevice) {
  for (const bool unified : {true, false}) {
    const Costs costs = costs_of({.unified = unified}, 10'000, 4);
    EXPECT_EQ(costs.allocations, 0);
    EXPECT_EQ(costs.host_waits, 0U);
    EXPECT_EQ(costs.device_allocations, 2U);
  }
}

TEST(SteadyState, WakeUpsAreOfBatchesNotOfElements) {
  const auto switches = [](std::int64_t rows) {
    VirtualClock clock;
    static_cast<void>(costs_of({.clock = &clock, .unified = false}, 10'000, rows));
    return clock.switches();
  };
  EXPECT_EQ(switches(1), switches(1000));
}

// Faults.

TEST(AreaFaults, AnAllocationThatFailsMakesFewerSlots) {
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

TEST(AreaFaults, ALostDeviceIsToldToEverybody) {
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

TEST(AreaFaults, AnErrorThatPassesIsThrownOnce) {
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

TEST(AreaFaults, ACopyThatNeverEndsIsNamed) {
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

TEST(AreaFaults, AStepThatNeverEndsIsNamed) {
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

TEST(AreaFaults, ASlowProducerDoesNotHang) {
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

TEST(AreaFaults, HeldSlotsAreRefusedOnceNothingCameOrWentForTheWatchdogsTime) {
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
TEST(AreaFaults, DestroyedAtRandomNothingHangsOrLeaks) {
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
