// What the memory cache keeps, when, and for whom.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <penstock/sources.h>

#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::counting;
using test::expect_over_inputs;
using test::expect_vectors;
using test::iota;
using test::numbers;
using test::run;
using test::values;
using test::x_of;

/// Different numbers at each pass.
Dataset changing(std::int64_t count) {
  auto pass = std::make_shared<std::atomic<std::int64_t>>(0);
  return Dataset(make_generate_source(
      [=]() -> Generator {
        const std::int64_t first = 100 * (*pass)++;
        return [=, next = std::int64_t{0}](Element& out) mutable {
          if (next == count) return false;
          out = test::x_element(first + next++);
          return true;
        };
      },
      test::x_spec(), "changing"));
}

TEST(Cache, ReplaysTheFirstPass) {
  expect_over_inputs(
      "epochs", {1, 2, 3}, [](Dataset d) { return d.cache().repeat(3); }, "1 2 3 1 2 3 1 2 3");
  expect_over_inputs(
      "of nothing", {}, [](Dataset d) { return d.cache().repeat(2); }, "");
  expect_over_inputs(
      "batches", iota(5), [](Dataset d) { return d.batch(2).cache().repeat(2); },
      "0 1 | 2 3 | 4 | 0 1 | 2 3 | 4");
  EXPECT_EQ(run(changing(3).cache().repeat(3)), "0 1 2 0 1 2 0 1 2");
  EXPECT_EQ(run(changing(3).cache(), {.epochs = 3}), "0 1 2 ;0 1 2 ;0 1 2 ;");
  EXPECT_EQ(run(changing(3).repeat(2)), "0 1 2 100 101 102");
}

TEST(Cache, MakesEachElementOnce) {
  for (const int threads : {1, 2, 8}) {
    auto made = std::make_shared<std::atomic<int>>(0);
    const Dataset dataset = counting(numbers(50), made).cache();
    (void)run(dataset.repeat(4).batch(8), {.threads = threads});
    EXPECT_EQ(*made, 50);
    (void)run(dataset.batch(8), {.epochs = 3, .threads = threads});
    EXPECT_EQ(*made, 100) << "each run fills its own";
  }
}

TEST(Cache, IsOfOneRun) {
  const Dataset dataset = changing(2).cache();
  EXPECT_EQ(run(dataset.repeat(2)), "0 1 0 1");
  EXPECT_EQ(run(dataset.repeat(2)), "100 101 100 101");
}

TEST(Cache, PartialPass) {
  auto made = std::make_shared<std::atomic<int>>(0);
  test::LogCapture log;
  const Dataset dataset = counting(numbers(10).batch(1).unbatch(), made).cache().take(5).repeat(2);
  EXPECT_EQ(run(dataset, {.threads = 1}), "0 1 2 3 4 0 1 2 3 4");
  EXPECT_EQ(log.count("take(k).cache().repeat()"), 1U);
  EXPECT_EQ(run(changing(10).cache().take(5).repeat(2)), "0 1 2 3 4 100 101 102 103 104");
  EXPECT_EQ(run(changing(10).take(5).cache().repeat(2)), "0 1 2 3 4 0 1 2 3 4");
}

TEST(Cache, IsCompleteOnceTheKnownCountIsReached) {
  auto made = std::make_shared<std::atomic<int>>(0);
  const Dataset dataset = counting(numbers(6), made).cache().take(6).repeat(2);
  EXPECT_EQ(run(dataset), "0 1 2 3 4 5 0 1 2 3 4 5");
  EXPECT_EQ(*made, 6);
}

TEST(Cache, KeepsNoErrors) {
  expect_vectors({
      {"fail", test::failing_at(numbers(3), 1).cache().repeat(2), "0 E 2 0 2"},
      {"epochs", test::failing_at(numbers(3), 1).cache(), "0 E 2 ;0 2 ;", {.epochs = 2}},
      {"skip",
       test::failing_at(numbers(3), 1).cache().repeat(2),
       "0 2 0 2",
       {.on_error = OnError::skip}},
  });
}

TEST(Cache, KeepsWhatRandomStagesDrew) {
  const auto draw = [](Element element, Rng& rng) {
    element.set("x", Tensor::scalar(static_cast<std::int64_t>(rng.below(1000000))));
    return element;
  };
  for (const std::uint64_t buffer : {0, 5}) {
    const auto passes = [](const Dataset& dataset) {
      const auto all = values(dataset.repeat(2), {.seed = 3});
      const auto half = static_cast<std::ptrdiff_t>(all.size() / 2);
      return std::pair(std::vector<std::int64_t>(all.begin(), all.begin() + half),
                       std::vector<std::int64_t>(all.begin() + half, all.end()));
    };
    const auto [a, b] = passes(numbers(20).shuffle({.buffer = buffer}).map(draw).cache());
    EXPECT_EQ(a, b);
    // Behind the cache each pass draws anew.
    const auto [c, d] = passes(numbers(20).cache().map(draw));
    EXPECT_NE(c, d);
    const auto [e, f] = passes(numbers(20).cache().shuffle({.buffer = 20}));
    EXPECT_NE(e, f);
  }
}

TEST(Cache, DoesNotChangeWhatRandomStagesBehindItDraw) {
  const auto draw = [](Element element, Rng& rng) {
    element.set("x", Tensor::scalar(static_cast<std::int64_t>(rng.below(1000000))));
    return element;
  };
  EXPECT_EQ(run(numbers(20).cache().map(draw), {.seed = 3, .epochs = 3}),
            run(numbers(20).map(draw), {.seed = 3, .epochs = 3}));
  EXPECT_EQ(run(numbers(20).cache().repeat(3).map(draw), {.seed = 3}),
            run(numbers(20).repeat(3).map(draw), {.seed = 3}));
}

TEST(Cache, InsideANestedDataset) {
  auto pass = std::make_shared<std::atomic<std::int64_t>>(0);
  const auto nested = [pass](const Element& element) {
    const std::int64_t x = x_of(element);
    return numbers({0, 1})
        .map([pass, x](Element inner) {
          return test::x_element(1000 * (*pass)++ + 10 * x + x_of(inner));
        })
        .cache()
        .repeat(3);
  };
  const std::vector<std::int64_t> all =
      values(numbers({1, 2}).flat_map(nested, test::x_spec()), {.threads = 2});
  ASSERT_EQ(all.size(), 12U);
  for (const std::size_t first : {0U, 6U}) {
    EXPECT_NE(all[first], all[first + 1]);
    for (std::size_t i = 2; i < 6; ++i) EXPECT_EQ(all[first + i], all[first + i % 2]);
  }
  EXPECT_EQ(*pass, 4);
}

TEST(Cache, OneCacheReadTwiceInAGraph) {
  auto made = std::make_shared<std::atomic<int>>(0);
  const Dataset cached = counting(numbers(3), made).cache();
  expect_vectors({{"one after the other", cached.concatenate(cached), "0 1 2 0 1 2"}});
  const Dataset other = cached.map(
      [](Element element) {
        return Element({{"y", element[0]}});
      },
      {.output = Spec({{"y", DType::i64, Shape()}})});
  expect_vectors({{"side by side", zip({cached, other}), "(0, 0) (1, 1) (2, 2)"}});
}

/// Every value, error and end of all epochs.
std::vector<std::string> told(Iterator& iterator) {
  std::vector<std::string> all;
  do {
    Next next = iterator.next();
    for (; !next.is_end(); next = iterator.next())
      all.push_back(next.is_error() ? "E" : test::text_of(*next));
    all.emplace_back(";");
  } while (iterator.next_epoch());
  return all;
}

/// The same restored at every position.
void expect_restored(const std::string& name, const Dataset& dataset, const RunOptions& options) {
  Iterator whole = dataset.iterate(options);
  const std::vector<std::string> expected = told(whole);
  Iterator iterator = dataset.iterate(options);
  for (std::size_t at = 0; at < expected.size(); ++at) {
    Iterator restored = dataset.restore(iterator.save(), options);
    const std::vector<std::string> rest(expected.begin() + static_cast<std::ptrdiff_t>(at),
                                        expected.end());
    ASSERT_EQ(told(restored), rest) << name << ", at " << at;
    if (iterator.next().is_end()) iterator.next_epoch();
  }
}

TEST(Cache, OneCacheInTwoPlaces) {
  const auto random = [](const Element&, Rng& rng) {
    return test::x_element(static_cast<std::int64_t>(rng.below(1000)));
  };
  const Dataset cached = numbers(12).map(random).cache();
  const auto graph = [&](bool first_is_slow) {
    const auto slow = [](bool is) {
      return [is](const Element&) {
        if (is) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return true;
      };
    };
    const Dataset first = cached.filter(slow(first_is_slow)).map(random);
    const Dataset second = cached.filter(slow(!first_is_slow)).map(random);
    return choose_from({first.repeat(2), second.repeat(2)}, numbers({0, 1, 1, 0}).repeat());
  };
  EXPECT_EQ(run(graph(false)), run(graph(true)));
  expect_restored("chosen", graph(false), {});
  const Dataset twice = cached.repeat(2);
  expect_restored("one behind the other", twice.concatenate(twice).map(random), {.epochs = 2});
}

TEST(Cache, IsRestoredWhereItsInputFails) {
  const Dataset cached = test::failing_at(numbers(3), 2).cache();
  const auto same = [](const Dataset& window) { return window; };
  expect_restored("windows", cached.repeat(3).window(2, same, {.shift = 1}), {});
  expect_restored("two branches",
                  choose_from({cached.repeat(2), cached.repeat(2)}, numbers({0, 1}).repeat()), {});
}

TEST(Cache, LargerThanTheBudget) {
  const Dataset large = numbers(2000).map(
      [](const Element&, Element& out, Rng&) {
        for (float& value : out["big"].mutable_values<float>()) value = 1;
      },
      {.name = "large", .output = Spec({{"big", DType::f32, {2500}}})});
  for (const OnError policy : {OnError::fail, OnError::skip}) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Error> errors =
        test::errors(large.cache(), {.threads = 2, .memory_bytes = 8U << 20, .on_error = policy});
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].code(), ErrorCode::resource_exhausted);
    EXPECT_NE(errors[0].where().stage.find("cache"), std::string::npos);
    EXPECT_NE(std::string(errors[0].what()).find("file"), std::string::npos);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  }
  EXPECT_TRUE(test::errors(large.take(400).cache(), {.memory_bytes = 8U << 20}).empty());
}

TEST(Cache, SaysThatItFreezesWhatIsDrawnBefore) {
  const std::string text = numbers(3).shuffle().cache().explain();
  EXPECT_NE(text.find("put random stages after the cache"), std::string::npos) << text;
  EXPECT_EQ(numbers(3).cache().shuffle({.buffer = 3}).explain().find("put random"),
            std::string::npos);
}

}  // namespace
}  // namespace penstock
