// The byte budget where callers keep batches or are slow, and where a plan asks for more.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/rng.h>
#include <penstock/sources.h>

#include "tests/engine/budgets.h"
#include "tests/support/errors.h"
#include "tests/support/numbers.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::Clock;
using test::DoubleOp;
using test::numbers;
using test::ParetoSource;
using test::seconds_since;

TEST(Budget, OversizedPlan) {
  const Dataset dataset = numbers(10).batch(1000).unbatch().batch(2000);
  try {
    (void)dataset.iterate({.memory_bytes = 20000});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    for (const char* part : {"20000", "batch"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(test::values(dataset, {.memory_bytes = 1U << 20}).size(), 10U);
}

TEST(Budget, OversizedBatch) {
  const Dataset none = numbers(10).map(
      [](Element) {
        return Element({{"x", Tensor::allocate(DType::u8, {0})}});
      },
      {.output = Spec({{"x", DType::u8, {0}}})});
  for (const std::int64_t size :
       {INT64_MAX, INT64_MAX - 1, std::int64_t{1} << 61, std::int64_t{1} << 33}) {
    for (const std::uint64_t budget : {std::uint64_t{1} << 20, std::uint64_t{UINT64_MAX}}) {
      for (const OnError on_error : {OnError::fail, OnError::skip}) {
        for (const Dataset& input : {numbers(10), none}) {
          const Dataset dataset = input.batch(size);
          EXPECT_EQ(dataset.cardinality(), 1);
          EXPECT_NE(dataset.explain().find("refused"), std::string::npos);
          test::expect_error(
              ErrorCode::resource_exhausted,
              std::to_string(std::min<std::uint64_t>(budget, INT64_MAX)),
              [&] { (void)dataset.iterate({.memory_bytes = budget, .on_error = on_error}); });
        }
      }
    }
    const Dataset grouped = numbers(10).padded_batch(size);
    EXPECT_EQ(test::values(grouped, {.memory_bytes = 1U << 20}).size(), 10U);
  }
}

/// 8 bytes each make it 2^64, which is 0 where it wraps around.
TEST(Budget, OversizedComponents) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  const auto one = [](Element) { return Element({{"x", Tensor::of<std::int64_t>({1}, {1})}}); };
  const Spec any({{"x", DType::i64, {Shape::kUnknown}}});
  const Spec huge({{"x", DType::i64, {kHuge}}});
  const Dataset ones = numbers(3).map(one, {.output = any});
  const auto first_error = [](const std::function<Dataset()>& make) -> std::string {
    try {
      Iterator iterator = make().iterate({.memory_bytes = 1U << 20});
      const Next next = iterator.next();
      return next.is_error() ? std::string(name_of(next.error().code())) : "none";
    } catch (const Error& error) {
      return std::string(name_of(error.code()));
    }
  };
  const std::vector<std::pair<std::string, std::function<Dataset()>>> kCases{
      {"padded", [&] { return ones.padded_batch(2, {.shapes = {{kHuge}}}); }},
      {"filled up", [&] { return numbers(3).padded_batch(kHuge).pad_batches(); }},
      {"declared",
       [&] { return numbers(3).map([](const Element&, Element&, Rng&) {}, {.output = huge}); }},
      {"batchwise",
       [&] { return numbers(3).map_batchwise([](const Element&, Element&) {}, {.output = huge}); }},
  };
  for (const auto& [name, make] : kCases) {
    const std::string code = first_error(make);
    EXPECT_TRUE(code == "out_of_range" || code == "resource_exhausted") << name << ": " << code;
  }
}

TEST(Budget, CallerThatKeepsBatches) {
  Iterator iterator = numbers(4096).batch(128).iterate({.memory_bytes = 1U << 20, .slots = 2});
  std::vector<Element> kept;
  for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    kept.push_back(next.value());
  }
  ASSERT_EQ(kept.size(), 32U);
  for (std::size_t b = 0; b < kept.size(); ++b) {
    EXPECT_EQ(kept[b][0].values<std::int64_t>()[5], static_cast<std::int64_t>(b * 128 + 5));
  }
}

TEST(Budget, CallerThatKeepsAllOfIt) {
  // Eight batches of 1 KiB and no more.
  Iterator iterator = numbers(4096).batch(128).iterate({.memory_bytes = 8 << 10, .slots = 2});
  std::vector<Element> kept;
  const auto start = Clock::now();
  Next next = iterator.next();
  while (next.has_value()) {
    kept.push_back(next.value());
    next = Next(End{});
    next = iterator.next();
  }
  ASSERT_TRUE(next.is_error());
  EXPECT_EQ(next.error().code(), ErrorCode::resource_exhausted);
  EXPECT_NE(std::string(next.error().what()).find("held"), std::string::npos);
  EXPECT_GE(kept.size(), 2U);
  EXPECT_LE(kept.size(), 8U);
  EXPECT_LT(seconds_since(start), 60.0);
  const std::size_t before = kept.size();
  kept.clear();
  std::size_t rest = 0;
  for (Next more = iterator.next(); !more.is_end(); more = iterator.next()) {
    EXPECT_TRUE(more.has_value());
    ++rest;
  }
  EXPECT_EQ(before + rest, 32U);
}

TEST(Budget, NamesTheHoldersOfSlots) {
  const Dataset batches = numbers(4096).batch(128);  // of 1 KiB each
  Iterator iterator = batches.shuffle({.buffer = 20})
                          .unbatch()
                          .batch(2)
                          .iterate({.threads = 4, .memory_bytes = 8 << 10});
  const Next next = iterator.next();
  ASSERT_TRUE(next.is_error());
  EXPECT_THAT(next.error().what(),
              testing::HasSubstr(" batch slots are held by the caller or by shuffle[2], unbatch[3],"
                                 " and the memory budget has no room for another of 1024 bytes"));
}

// Batches of another stage, or what keeps their slots, are the caller's, too.
TEST(Budget, CallerThatKeepsAllOfAnotherStage) {
  const Dataset batches = numbers(1024).batch(128);  // of 1 KiB each
  const auto text = [](const Element& in) {
    return Element{{"text", Tensor::copy_bytes(std::to_string(in[0].item<std::int64_t>()))}};
  };
  const Dataset texts =
      numbers(1024).map(text, {.output = Spec({{"text", DType::bytes, Shape()}})});
  for (const Dataset& dataset :
       {batches.concatenate(batches), texts.batch(128).unbatch().batch(2)}) {
    Iterator iterator = dataset.iterate({.threads = 1, .memory_bytes = 8 << 10});
    std::vector<Element> kept;
    std::uint64_t errors = 0;
    std::uint64_t rows = 0;
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
      if (next.has_value()) {
        rows += static_cast<std::uint64_t>(next.value()[0].shape()[0]);
        if (errors == 0) kept.push_back(std::move(next.value()));
      } else {
        ++errors;
        kept.clear();
      }
    }
    EXPECT_EQ(rows, dataset.spec()[0].dtype == DType::bytes ? 1024U : 2048U) << errors;
  }
}

TEST(Budget, SlowCaller) {
  // Batches wait behind a map for longer than the engine's patience, and fill the budget.
  const auto same = [](Element element) { return element; };
  Iterator iterator =
      numbers(4096).batch(128).map(same).iterate({.memory_bytes = 8 << 10, .slots = 2});
  std::size_t count = 0;
  for (;;) {
    if (count == 1 || count == 9) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    Next next = iterator.next();
    if (next.is_end()) break;
    EXPECT_TRUE(next.has_value()) << next.error().what();
    ++count;
  }
  EXPECT_EQ(count, 32U);
}

TEST(Budget, SlowWorkOnBatches) {
  for (const bool blocking : {false, true}) {
    const auto slow = [](Element element) {
      if (element[0].values<std::int64_t>()[0] == 128) {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
      }
      return element;
    };
    const Dataset dataset = numbers(2048).batch(128).map(slow, {.blocking = blocking});
    const auto errors = test::errors(dataset, {.threads = 2, .memory_bytes = 4 << 10, .slots = 2});
    EXPECT_TRUE(errors.empty()) << errors[0].what();
  }
}

TEST(Budget, SlowStreamBesideAFullBudget) {
  const Dataset slow{make_generate_source(
      []() -> Generator {
        return [next = std::int64_t{0}](Element& out) mutable {
          if (next == 4) return false;
          std::this_thread::sleep_for(std::chrono::milliseconds(250));
          out = test::x_element(next++);
          return true;
        };
      },
      test::x_spec(), "slow")};
  for (const bool blocking : {false, true}) {
    const auto source = std::make_shared<ParetoSource>(
        ParetoSource::Options{.count = 2000, .most = 20000, .blocking = blocking});
    const Dataset full =
        Dataset(SourcePtr(source)).map_op(std::make_shared<DoubleOp>()).filter([](const Element&) {
          return true;
        });
    const auto errors = test::errors(zip({full, slow}), {.threads = 2, .memory_bytes = 256 << 10});
    EXPECT_TRUE(errors.empty()) << errors[0].what();
  }
}

TEST(Budget, OversizedCache) {
  const auto source =
      std::make_shared<ParetoSource>(ParetoSource::Options{.count = 200, .most = 20000});
  const Dataset dataset = Dataset(SourcePtr(source)).cache().batch(2);
  const auto start = Clock::now();
  Iterator iterator = dataset.iterate({.threads = 2, .memory_bytes = 128 << 10});
  Next next = iterator.next();
  while (next.has_value()) next = iterator.next();
  ASSERT_TRUE(next.is_error());
  EXPECT_EQ(next.error().code(), ErrorCode::resource_exhausted);
  EXPECT_LT(seconds_since(start), 60.0);
}

TEST(Budget, LifetimeOfBytes) {
  std::vector<Element> kept;
  {
    const auto source = std::make_shared<ParetoSource>(ParetoSource::Options{.count = 20});
    Iterator iterator = Dataset(SourcePtr(source))
                            .map_op(std::make_shared<DoubleOp>())
                            .batch(3)
                            .iterate({.memory_bytes = 32 << 20});
    for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
      kept.push_back(*next);
    }
  }
  ASSERT_EQ(kept.size(), 7U);
  std::uint64_t index = 0;
  for (const Element& batch : kept) {
    for (std::int64_t row = 0; row < batch[0].dim(0); ++row, ++index) {
      const std::string_view text = batch[0].bytes_at(row);
      EXPECT_EQ(static_cast<std::uint64_t>(static_cast<unsigned char>(text.front())), index % 251);
      EXPECT_EQ(text.find_first_not_of(text.front()), std::string_view::npos);
    }
  }
  EXPECT_EQ(index, 20U);
}

}  // namespace
}  // namespace penstock
