// The engine itself: order, errors in place, budgets, epochs, cancelling.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <penstock/sources.h>

#include "tests/support/canceller.h"
#include "tests/support/numbers.h"
#include "tests/support/sanitizer.h"

namespace penstock {
namespace {

using test::failing_at;
using test::numbers;
using test::run;
using test::values;

struct ErrorCase {
  const char* name;
  Dataset dataset;
  std::string fail;
  std::string skip;
};

TEST(Engine, KeepsErrorsInTheirPlace) {
  const std::vector<ErrorCase> cases{
      {"map", failing_at(numbers(4), 1), "0 E 2 3", "0 2 3"},
      {"take counts no error", failing_at(numbers(4), 0).take(2), "E 1 2", "1 2"},
      {"skip counts no error", failing_at(numbers(5), 0).skip(2), "E 3 4", "3 4"},
      {"shard counts errors", failing_at(numbers(12), 3).shard(3, 0), "0 E 6 9", "0 6 9"},
      {"batch, second", failing_at(numbers(6), 1).batch(2), "E | 2 3 | 4 5", "0 2 | 3 4 | 5"},
      {"batch, first", failing_at(numbers(6), 2).batch(2), "0 1 | E | 3 4 | 5", "0 1 | 3 4 | 5"},
      {"batch, last", failing_at(numbers(5), 4).batch(2), "0 1 | 2 3 | E", "0 1 | 2 3"},
      {"batch, only", failing_at(numbers(1), 0).batch(2), "E", ""},
      {"behind batch", failing_at(numbers(8).batch(2).unbatch(), 2).batch(4), "E | 3 4 5 6 | 7",
       "0 1 3 4 | 5 6 7"},
  };
  for (const ErrorCase& test : cases) {
    for (const int threads : {1, 2, 8}) {
      for (const int slots : {1, 2, 4}) {
        RunOptions options{.threads = threads, .slots = slots};
        EXPECT_EQ(run(test.dataset, options), test.fail) << test.name << " " << threads;
        options.on_error = OnError::skip;
        EXPECT_EQ(run(test.dataset, options), test.skip) << test.name << " " << threads;
      }
    }
  }
}

TEST(Engine, SkippedAndFilteredElements) {
  for (const std::int64_t batch : {1, 3, 8, 32}) {
    const auto odd = numbers(200).map([](Element element) {
      const auto x = element["x"].item<std::int64_t>();
      if (x % 7 == 3 || x % 11 == 5 || (x > 100 && x < 120)) throw std::runtime_error("bad");
      return element;
    });
    const auto good = numbers(200).filter([](const Element& element) {
      const auto x = element["x"].item<std::int64_t>();
      return !(x % 7 == 3 || x % 11 == 5 || (x > 100 && x < 120));
    });
    const std::string expected = run(good.batch(batch));
    for (const int threads : {1, 2, 4}) {
      for (const int slots : {1, 2, 3, 8}) {
        EXPECT_EQ(
            run(odd.batch(batch), {.threads = threads, .slots = slots, .on_error = OnError::skip}),
            expected)
            << batch << " " << threads << " " << slots;
      }
    }
  }
}

TEST(Engine, DeliversTheSameForAnyThreads) {
  const Dataset dataset =
      numbers(5000)
          .shuffle({.seed = 3})
          .map([](Element element, Rng& rng) {
            element.set("x",
                        Tensor::scalar<std::int64_t>(element["x"].item<std::int64_t>() * 1000 +
                                                     static_cast<std::int64_t>(rng.below(1000))));
            return element;
          })
          .batch(64);
  const std::string expected = run(dataset, {.seed = 7, .epochs = 2, .threads = 1});
  for (const int threads : {2, 3, 8}) {
    EXPECT_EQ(run(dataset, {.seed = 7, .epochs = 2, .threads = threads}), expected);
  }
  EXPECT_NE(run(dataset, {.seed = 8, .epochs = 2, .threads = 1}), expected);
}

TEST(Engine, NextAfterTheEnd) {
  Iterator iterator = numbers(3).batch(2).iterate({.epochs = 2});
  EXPECT_TRUE(iterator.next().has_value());
  EXPECT_TRUE(iterator.next().has_value());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(iterator.next().is_end());
  EXPECT_TRUE(iterator.next_epoch());
  EXPECT_TRUE(iterator.next().has_value());
  EXPECT_FALSE(iterator.next_epoch());
  EXPECT_TRUE(iterator.next().has_value());
  EXPECT_TRUE(iterator.next().is_end());
}

TEST(Engine, RunsManyShortEpochs) {
  std::string expected;
  for (int epoch = 0; epoch < 50; ++epoch) expected += "0 1 | 2 ;";
  EXPECT_EQ(run(numbers(3).batch(2), {.epochs = 50, .threads = 2}), expected);
  EXPECT_EQ(run(numbers(0).batch(2), {.epochs = 3}), " ; ; ;");
}

TEST(Engine, BeginsEachEpochOnceHoweverLongThatTakes) {
  std::atomic<int> passes{0};
  const Dataset dataset = generate(
      [&] {
        if (passes++ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
        return [x = std::int64_t{0}](Element& out) mutable {
          out.set("x", Tensor::scalar(x));
          return x++ < 2;
        };
      },
      Spec({{"x", DType::i64, {}}}), "slow_to_begin");
  EXPECT_EQ(run(dataset.batch(2), {.epochs = 3, .threads = 2}), "0 1 ;0 1 ;0 1 ;");
  EXPECT_EQ(passes, 3);
}

TEST(Engine, CancelWhileWaiting) {
  std::atomic<bool> stop{false};
  const Dataset slow = numbers(100).map(
      [&](Element element) {
        while (!stop) std::this_thread::yield();
        return element;
      },
      {.name = "slow", .blocking = true});
  Iterator iterator = slow.batch(4).iterate({.threads = 2});
  test::Canceller canceller(iterator, stop);
  const Next next = iterator.next();
  canceller.woken();
  ASSERT_TRUE(next.is_error());
  EXPECT_EQ(next.error().code(), ErrorCode::cancelled);
}

TEST(Engine, DestroysAtAnyMoment) {
  constexpr bool kSanitized = test::kAddressSanitizer || test::kThreadSanitizer;
  for (int i = 0; i < (kSanitized ? 90 : 300); ++i) {
    Iterator iterator =
        numbers(10000).shuffle().batch(1 + i % 50).iterate({.epochs = 3, .threads = 1 + i % 3});
    for (int k = 0; k < i % 7; ++k) (void)iterator.next();
  }
}

TEST(Engine, RefusesAPlanThatNeedsMoreThanTheBudget) {
  try {
    (void)numbers(10).batch(1 << 20).iterate({.memory_bytes = 1 << 20});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    EXPECT_NE(std::string(error.what()).find("8388608"), std::string::npos) << error.what();
  }
}

TEST(Engine, KeepsTheOriginalExceptionAndSaysWhere) {
  const std::vector<Error> all = test::errors(failing_at(numbers(4), 2));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].code(), ErrorCode::user);
  EXPECT_EQ(all[0].where().shard, "numbers");
  EXPECT_EQ(all[0].where().offset, 16);
  EXPECT_EQ(all[0].where().index, 2);
  EXPECT_NE(all[0].where().stage.find("failing"), std::string::npos);
  EXPECT_THROW(std::rethrow_exception(all[0].original()), std::runtime_error);
}

}  // namespace
}  // namespace penstock
