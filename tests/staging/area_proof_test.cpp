// Mistakes with slots are found, and a steady state costs what it should.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include <penstock/rng.h>

#include "staging/area.h"
#include "tests/staging/batches.h"
#include "tests/staging/beds.h"
#include "tests/support/sanitizer.h"

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

/// Hazards: one mistake each, put in by the consumer or the producer.
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
                            found[0].to_string().find("area_producer.cpp") != std::string::npos;
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

TEST(SlotGuardDeathTest, SlotOutsideALease) {
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
        // The reaper closes the slot when it gets to it.
        const std::int64_t start = device->now();
        while (device->now() < start + 20'000 * kMs) {
          static_cast<void>(*static_cast<const volatile std::byte*>(data));
          device->backend().time().sleep_until(device->now() + kMs);
        }
        std::exit(0);
      },
      "");
}

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

/// Steps of a run in its steady state.
constexpr int kSteps = test::kThreadSanitizer || test::kAddressSanitizer ? 1'000 : 10'000;

TEST(SteadyState, AllocatesNothingAndNobodyButTheReaperWaitsForTheDevice) {
  for (const bool unified : {true, false}) {
    VirtualClock clock;  // so that the threads take the same turns in each run
    const Costs costs = costs_of({.clock = &clock, .unified = unified}, kSteps, 4);
    EXPECT_EQ(costs.allocations, 0);
    EXPECT_EQ(costs.host_waits, 0U);
    EXPECT_EQ(costs.device_allocations, 2U);
  }
}

TEST(SteadyState, WakeUpsForBatches) {
  const auto switches = [](std::int64_t rows) {
    VirtualClock clock;
    static_cast<void>(costs_of({.clock = &clock, .unified = false}, kSteps, rows));
    return clock.switches();
  };
  EXPECT_EQ(switches(1), switches(1000));
}

}  // namespace
}  // namespace penstock
