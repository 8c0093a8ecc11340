// Staging areas: every batch once and in order, slots and leases.
#include <atomic>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/penstock.h>
#include <penstock/staging_area.h>

#include "tests/staging/area_on.h"
#include "tests/staging/batches.h"
#include "tests/staging/beds.h"

namespace penstock {
namespace {

using test::expect_numbers;
using test::numbers;
using test::numbers_spec;
using test::StagingAreaOn;
constexpr std::int64_t kMs = 1'000'000;

TEST_P(StagingAreaOn, DeliversEveryBatchOnceAndInOrder) {
  for (const int slots : {1, 2, 3}) {
    SCOPED_TRACE(slots);
    const Stream compute(shared(), "compute");
    StagingArea area(shared(), numbers_spec(), 8, {.slots = slots});
    EXPECT_EQ(area.slots(), slots);
    const Actor producer = start([&] {
      for (std::int64_t k = 0; k < 30; ++k) area.put(numbers(100 * k, 1 + k % 8));
      area.put_end();
    });
    for (std::int64_t k = 0; k < 30; ++k) {
      std::optional<StagedBatch> batch = area.get();
      ASSERT_TRUE(batch);
      EXPECT_EQ(batch->sequence(), static_cast<std::uint64_t>(k));
      EXPECT_EQ(batch->valid_rows(), 1 + k % 8);
      batch->wait(compute);
      expect_numbers(*batch, compute, 100 * k, 1 + k % 8);
      if (k % 3 == 0) batch->release(compute);
      if (k % 3 == 1) batch->release();
    }
    EXPECT_FALSE(area.get());
  }
}

TEST_P(StagingAreaOn, ManyConsumers) {
  StagingArea area(shared(), numbers_spec(), 1, {.slots = 2, .ahead = 3});
  Mutex mutex;
  std::multiset<std::int64_t> seen;
  {
    std::vector<Actor> actors;
    for (std::int64_t p = 0; p < 3; ++p) {
      actors.push_back(start([&, p] {
        for (std::int64_t k = 0; k < 20; ++k) area.put(numbers(100 * p + k, 1));
      }));
    }
    for (int c = 0; c < 3; ++c) {
      actors.push_back(start([&] {
        const Stream stream(shared(), "consumer");
        for (int k = 0; k < 20; ++k) {
          std::optional<StagedBatch> batch = area.get();
          batch->wait(stream);
          const auto x = test::read<std::int64_t>(stream, (*batch)["x"]);
          MutexLock lock(mutex);
          seen.insert(x[0]);
        }
      }));
    }
  }
  ASSERT_EQ(seen.size(), 60U);
  for (std::int64_t p = 0; p < 3; ++p) {
    for (std::int64_t k = 0; k < 20; ++k) EXPECT_EQ(seen.count(100 * p + k), 1U);
  }
}

TEST_P(StagingAreaOn, AddressesOfSlots) {
  if (device().unified()) GTEST_SKIP() << "batches are not copied";
  const Stream compute(shared(), "compute");
  StagingArea area(shared(), numbers_spec(), 4, {.slots = 3});
  std::map<int, std::pair<std::byte*, std::byte*>> places;
  const std::uint64_t allocations = device().counters().allocations;
  for (int k = 0; k < 30; ++k) {
    area.put(numbers(k, 4));
    std::optional<StagedBatch> batch = area.get();
    batch->wait(compute);
    const std::pair place((*batch)["x"].data, (*batch)["y"].data);
    EXPECT_EQ(places.try_emplace(batch->slot(), place).first->second, place);
  }
  EXPECT_EQ(places.size(), 3U);
  EXPECT_EQ(device().counters().allocations, allocations);
}

TEST_P(StagingAreaOn, BatchesUnderWay) {
  for (const int ahead : {0, 1, 4}) {
    StagingArea area(shared(), numbers_spec(), 1, {.slots = 2, .ahead = ahead});
    std::atomic<int> reserved{0};
    Actor producer = start([&] {
      try {
        std::vector<StagingPermit> permits;
        for (;;) {
          permits.push_back(area.reserve());
          ++reserved;
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::cancelled);
      }
    });
    EXPECT_TRUE(wait_until([&] { return reserved >= 2 + ahead; }));
    pause(10 * kMs);  // time for one too many
    EXPECT_EQ(reserved, 2 + ahead);
    area.fail(Error(ErrorCode::cancelled, "over"));
    producer.reset();
  }
}

TEST_P(StagingAreaOn, ProducerWithoutASlot) {
  const Stream compute(shared(), "compute");
  StagingArea area(shared(), numbers_spec(), 1, {.slots = 1, .ahead = 2});
  std::atomic<int> put{0};
  const Actor producer = start([&] {
    for (int k = 0; k < 3; ++k) {
      area.put(numbers(k, 1));
      ++put;
    }
  });
  EXPECT_TRUE(wait_until([&] { return put >= 1; }));
  pause(20 * kMs);  // time for one too many
  EXPECT_EQ(put, 1);
  for (int k = 0; k < 3; ++k) {
    std::optional<StagedBatch> batch = area.get();
    EXPECT_LE(put, k + 1);
    batch->wait(compute);
    expect_numbers(*batch, compute, k, 1);
    batch->release();
  }
}

TEST_P(StagingAreaOn, AllSlotsHeld) {
  const Stream compute(shared(), "compute");
  StagingArea area(shared(), numbers_spec(), 1, {.slots = 2, .watchdog_s = 0.5});
  area.put(numbers(0, 1));
  area.put(numbers(1, 1));
  std::optional<StagedBatch> first = area.get();
  std::optional<StagedBatch> second = area.get();
  try {
    static_cast<void>(area.get());
    FAIL() << "there was a third";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_progress);
    EXPECT_THAT(error.cause(), testing::HasSubstr("all 2 slots are held, and none was released"));
  }
  first.reset();
  area.put(numbers(2, 1));
  EXPECT_EQ(area.get()->sequence(), 2U);
}

TEST_P(StagingAreaOn, ReleaseByAnotherThread) {
  StagingArea area(shared(), numbers_spec(), 1, {.slots = 2});
  std::vector<Actor> actors;
  actors.push_back(start([&] {
    for (int k = 0; k < 6; ++k) area.put(numbers(k, 1));
  }));
  for (std::uint64_t k = 0; k < 6; ++k) {
    auto batch = std::make_shared<StagedBatch>(*area.get());
    EXPECT_EQ(batch->sequence(), k);
    actors.push_back(start([this, batch] {
      pause(10 * kMs);
      batch->release();
    }));
  }
}

TEST_P(StagingAreaOn, PlacesOfEndsAndErrors) {
  StagingArea area(shared(), numbers_spec(), 1, {.slots = 3});
  area.put(numbers(0, 1));
  area.put_error(Error(ErrorCode::data_loss, "damaged"));
  area.put(numbers(1, 1));
  area.put_end();
  area.put(numbers(2, 1));
  EXPECT_EQ(area.size(), 3U);
  EXPECT_EQ(area.get()->sequence(), 0U);
  EXPECT_EQ(test::code_of([&] { static_cast<void>(area.get()); }), ErrorCode::data_loss);
  EXPECT_EQ(area.get()->sequence(), 1U);
  EXPECT_FALSE(area.get());
  EXPECT_EQ(area.get()->sequence(), 2U);
}

TEST_P(StagingAreaOn, PeekAndClear) {
  const Stream compute(shared(), "compute");
  StagingArea area(shared(), numbers_spec(), 1, {.slots = 3});
  for (int k = 0; k < 3; ++k) area.put(numbers(10 * k, 1));
  {
    StagedBatch peeked = area.peek(1);
    peeked.wait(compute);
    expect_numbers(peeked, compute, 10, 1);
    EXPECT_EQ(area.size(), 3U);
    EXPECT_EQ(area.get()->sequence(), 0U);
    StagedBatch taken = *area.get();
    EXPECT_EQ(taken.slot(), peeked.slot());
    taken.release();
    expect_numbers(peeked, compute, 10, 1);  // still held
  }
  EXPECT_EQ(test::code_of([&] { static_cast<void>(area.peek(3)); }), ErrorCode::invalid_argument);
  area.clear();
  EXPECT_EQ(area.size(), 0U);
  area.put(numbers(7, 1));
  EXPECT_EQ(area.get()->sequence(), 3U);
}

TEST_P(StagingAreaOn, LifetimeOfALease) {
  const Stream compute(shared(), "compute");
  std::optional<StagedBatch> kept;
  {
    StagingArea area(shared(), numbers_spec(), 2);
    area.put(numbers(5, 2));
    area.put(numbers(7, 2));
    kept = area.get();
  }
  kept->wait(compute);
  expect_numbers(*kept, compute, 5, 2);
}

TEST_P(StagingAreaOn, SlotOfSeveralStreams) {
  const Stream first(shared(), "first");
  const Stream second(shared(), "second");
  StagingArea area(shared(), numbers_spec(), 1, {.slots = 1});
  area.put(numbers(0, 1));
  const std::int64_t begin = device().now();
  {
    StagedBatch batch = *area.get();
    batch.wait(first);
    batch.wait(second);
    second.view().busy(80 * kMs);
    batch.release(first);
  }
  area.put(numbers(1, 1));
  StagedBatch batch = *area.get();
  batch.synchronize();
  EXPECT_GE(device().now() - begin, 79 * kMs);
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < StagedBatch::kMostStreams; ++i) {
    streams.emplace_back(shared(), "another");
    batch.wait(streams.back());
    batch.wait(streams.back());  // counts once
  }
  EXPECT_EQ(test::code_of([&] { batch.wait(first); }), ErrorCode::out_of_range);
  batch.release();
}

TEST_P(StagingAreaOn, CloseWhileWaiting) {
  auto area = std::make_unique<StagingArea>(shared(), numbers_spec(), 1);
  std::atomic<int> woken{0};
  StagingArea& waited = *area;
  Actor consumer = start([&] {
    if (test::code_of([&] { static_cast<void>(waited.get()); }) == ErrorCode::cancelled) ++woken;
  });
  pause(5 * kMs);
  waited.fail(Error(ErrorCode::cancelled, "over"));
  consumer.reset();
  area.reset();
  EXPECT_EQ(woken, 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, StagingAreaOn, testing::ValuesIn(test::bed_kinds()),
                         test::name_of_bed);

}  // namespace
}  // namespace penstock
