// The budget is charged for values that a stage holds, besides their tensors.
#include "pipeline/stage/held_values.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/stats.h>

#include "pipeline/engine/memory/memory.h"
#include "tests/support/errors.h"
#include "tests/support/numbers.h"

namespace penstock {
namespace held_values_test {

using test::numbers;

constexpr std::int64_t kCount = 20'000;

/// Numbers that exist before the next stage gets them.
Dataset existing(std::int64_t count) {
  return numbers(count).filter([](const Element&) { return true; });
}

std::int64_t no_key(const Element&) {
  return 0;
}

/// Stages that hold `count` values at a time.
std::vector<std::pair<std::string, Dataset>> holding(std::int64_t count) {
  const Dataset values = existing(kCount);
  return {
      {"shuffle", values.shuffle({.buffer = static_cast<std::uint64_t>(count)})},
      {"window", values.window(count)},
      {"group_by_window", values.group_by_window(no_key, {.size = count})},
      {"bucket_by_length",
       values.bucket_by_length(
           {.length = no_key, .bounds = {5}, .sizes = {count, count}, .no_padding = true})},
      {"padded_batch", values.padded_batch(count)},
      // A window in the buffer holds the values that it is made of.
      {"shuffle", values.window(100).shuffle({.buffer = static_cast<std::uint64_t>(count / 100)})},
  };
}

struct Ended {
  std::int64_t elements = 0;
  std::string error;
  std::uint64_t peak = 0;
};

Ended ended(const Dataset& dataset, std::uint64_t memory, int threads) {
  Ended result;
  Iterator run = dataset.iterate({.threads = threads, .memory_bytes = memory});
  Next next = run.next();
  for (; !next.is_end() && !next.is_error(); next = run.next()) ++result.elements;
  if (next.is_error()) {
    EXPECT_EQ(next.error().code(), ErrorCode::resource_exhausted) << next.error().what();
    result.error = next.error().what();
  }
  result.peak = run.stats().memory.peak_bytes;
  return result;
}

TEST(HeldValues, AreInTheBudget) {
  for (const auto& [stage, dataset] : holding(kCount)) {
    for (const int threads : {1, 4}) {
      SCOPED_TRACE(stage + ", " + std::to_string(threads) + " threads");
      const Ended small = ended(dataset, 4 << 20, threads);
      EXPECT_EQ(small.elements, 0);
      EXPECT_NE(small.error.find("elements held take"), std::string::npos) << small.error;
      EXPECT_NE(small.error.find("stage " + stage + "["), std::string::npos) << small.error;
      EXPECT_LE(small.peak, 4U << 20);
      const Ended large = ended(dataset, 64 << 20, threads);
      EXPECT_GT(large.elements, 0);
      EXPECT_EQ(large.error, "");
      EXPECT_GE(large.peak, (kCount - HeldValues::kFree) * HeldValues::kBytes);
    }
  }
}

TEST(HeldValues, AreFreeWhereAStageHoldsFew) {
  for (const auto& [stage, dataset] : holding(1000)) {
    SCOPED_TRACE(stage);
    const Ended few = ended(dataset, 64 << 20, 2);
    EXPECT_EQ(few.error, "");
    EXPECT_GT(few.elements, 0);
    // The values of all windows together take 200 KiB. They may all be made ahead.
    EXPECT_LT(few.peak, 500 * HeldValues::kBytes);
  }
}

TEST(HeldValues, AreInTheBudgetWhereManyDatasetsAreOpen) {
  constexpr std::int64_t kOpen = 20;
  constexpr std::int64_t kEach = 500;
  const Dataset dataset = numbers(kOpen).interleave(
      [](const Element&) { return existing(kEach).shuffle({.buffer = kEach}); }, test::x_spec(),
      {.cycle = kOpen});
  const Ended run = ended(dataset, 64 << 20, 2);
  EXPECT_EQ(run.error, "");
  EXPECT_EQ(run.elements, kOpen * kEach);
  EXPECT_GE(run.peak, kOpen * (kEach - HeldValues::kFreeNested) * HeldValues::kBytes);
  EXPECT_NE(ended(dataset, 1 << 20, 2).error, "");
}

TEST(HeldValues, EndTheRunBehindTheSameElement) {
  // Groups of 1000 come out, until so many keys are new that their elements do not fit.
  const auto key = [](const Element& element) -> std::int64_t {
    const std::int64_t x = element["x"].item<std::int64_t>();
    return x < 5000 ? 0 : x;
  };
  const Dataset groups = existing(kCount).group_by_window(key, {.size = 1000});
  std::string error;
  for (const int threads : {1, 2, 8}) {
    for (int again = 0; again < 3; ++again) {
      const Ended run = ended(groups, 8 << 20, threads);
      EXPECT_EQ(run.elements, 5);
      EXPECT_NE(run.error, "");
      if (error.empty()) error = run.error;
      EXPECT_EQ(run.error, error);
    }
  }
}

TEST(HeldValues, AreChargedUntilTheirPayloadsAreRecycled) {
  constexpr std::uint64_t kEach = 100;
  constexpr std::uint64_t kCharge = PayloadCharges::kTogether * kEach;
  const auto memory = std::make_shared<Memory>(10 * kCharge, Allocator::heap());
  std::vector<Ref<Payload>> payloads;
  Ref<PayloadCharges> charges(new PayloadCharges);
  for (std::uint64_t i = 0; i < 10 * PayloadCharges::kTogether; ++i) {
    payloads.push_back(Payload::make());
    ASSERT_TRUE(payloads.back()->claim_charge());
    EXPECT_FALSE(payloads.back()->claim_charge());
    if (i % PayloadCharges::kTogether == 0) {
      EXPECT_FALSE(charges->take());
      charges->add(memory->charged(kCharge));
      ASSERT_TRUE(charges->take());
    }
    payloads.back()->charge = charges.get();
  }
  EXPECT_FALSE(charges->take());
  EXPECT_EQ(memory->room(), 0U);
  EXPECT_FALSE(memory->charged(1));
  charges = {};
  while (!payloads.empty()) {
    payloads.pop_back();
    const std::uint64_t held = memory->limit() - memory->room();
    EXPECT_GE(held, payloads.size() * kEach);
    if (!payloads.empty()) {
      EXPECT_LT(held, payloads.size() * kEach + 2 * kCharge);
    }
  }
  EXPECT_EQ(memory->room(), memory->limit());
  EXPECT_TRUE(Payload::make()->claim_charge());
}

}  // namespace held_values_test
}  // namespace penstock
