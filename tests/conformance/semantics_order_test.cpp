// tf.data's documented results of the stages that pick and arrange elements.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <penstock/sources.h>

#include "tests/support/errors.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::expect_error;
using test::expect_over_inputs;
using test::expect_vectors;
using test::iota;
using test::numbers;
using test::run;
using test::stream;
using test::x_of;

struct Case {
  std::string name;
  std::vector<std::int64_t> input;
  std::function<Dataset(const Dataset&)> stage;
  std::string expected;
};

void expect_cases(const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    expect_over_inputs(test.name, test.input, test.stage, test.expected);
  }
}

/// Counts up to `count`, and how many of its elements were asked for.
Dataset counted(std::int64_t count, std::shared_ptr<std::atomic<int>> pulled) {
  return Dataset(make_generate_source(
      [=]() -> Generator {
        return [=, next = std::int64_t{0}](Element& out) mutable {
          if (next == count) return false;
          ++*pulled;
          out = test::x_element(next++);
          return true;
        };
      },
      test::x_spec(), "counted"));
}

Dataset renamed(const Dataset& input, const std::string& name) {
  return input.map(
      [name](Element element) {
        return Element({{name, element[0]}});
      },
      {.output = Spec({{name, DType::i64, Shape()}})});
}

TEST(Shard, KeepsEveryNth) {
  expect_cases({
      {"3,0", iota(10), [](Dataset d) { return d.shard(3, 0); }, "0 3 6 9"},
      {"3,1", iota(10), [](Dataset d) { return d.shard(3, 1); }, "1 4 7"},
      {"3,2", iota(10), [](Dataset d) { return d.shard(3, 2); }, "2 5 8"},
      {"5,2", iota(10), [](Dataset d) { return d.shard(5, 2); }, "2 7"},
      {"more shards than elements", iota(10), [](Dataset d) { return d.shard(20, 5); }, "5"},
      {"nothing left", iota(1), [](Dataset d) { return d.shard(5, 2); }, ""},
      {"of nothing", {}, [](Dataset d) { return d.shard(5, 2); }, ""},
      {"of a shard", iota(20), [](Dataset d) { return d.shard(2, 1).shard(3, 2); }, "5 11 17"},
      {"behind skip", iota(10), [](Dataset d) { return d.skip(2).shard(3, 0); }, "2 5 8"},
  });
}

TEST(Shard, ContiguousShards) {
  const std::vector<std::string> parts{"0 1", "2 3 4", "5 6", "7 8 9"};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const Dataset part = numbers(10).shard(4, index, {.contiguous = true});
    expect_vectors({{"4," + std::to_string(i), part, parts[i]}});
    EXPECT_EQ(part.cardinality(), i % 2 == 0 ? 2 : 3);
  }
  expect_error(ErrorCode::invalid_argument, "indexed",
               [] { (void)stream(iota(10)).shard(4, 0, {.contiguous = true}); });
}

TEST(Shard, UnionOfAllParts) {
  for (std::int64_t n = 0; n <= 12; ++n) {
    for (std::int64_t shards = 1; shards <= 14; ++shards) {
      for (const bool contiguous : {false, true}) {
        std::vector<std::int64_t> all;
        for (std::int64_t i = 0; i < shards; ++i) {
          const Dataset part = numbers(n).shard(shards, i, {.contiguous = contiguous});
          const std::vector<std::int64_t> some = test::values(part, {.threads = 1});
          EXPECT_EQ(part.cardinality(), static_cast<std::int64_t>(some.size()));
          if (!contiguous) {
            EXPECT_EQ(part.cardinality(), n / shards + (i < n % shards ? 1 : 0));
          }
          all.insert(all.end(), some.begin(), some.end());
        }
        std::sort(all.begin(), all.end());
        EXPECT_EQ(all, iota(n)) << n << " over " << shards;
      }
    }
  }
}

TEST(Shard, RefusesWrongArguments) {
  const Dataset input = numbers(10);
  for (const auto& [count, index] : std::vector<std::pair<int, int>>{
           {0, 0}, {-1, 0}, {-2, -1}, {3, -1}, {3, 3}, {3, 4}, {1, 1}}) {
    expect_error(ErrorCode::invalid_argument, "shard",
                 [&, n = count, i = index] { (void)input.shard(n, i); });
  }
}

TEST(Repeat, RunsTheInputAgain) {
  expect_cases({
      {"3", {1, 2, 3}, [](Dataset d) { return d.repeat(3); }, "1 2 3 1 2 3 1 2 3"},
      {"1", {1, 2, 3}, [](Dataset d) { return d.repeat(1); }, "1 2 3"},
      {"0", {1, 2, 3}, [](Dataset d) { return d.repeat(0); }, ""},
      {"infinite", {1, 2}, [](Dataset d) { return d.repeat().take(5); }, "1 2 1 2 1"},
      {"-5 is infinite", {1, 2}, [](Dataset d) { return d.repeat(-5).take(3); }, "1 2 1"},
      {"of a repeat", {1, 2}, [](Dataset d) { return d.repeat(2).repeat(2); }, "1 2 1 2 1 2 1 2"},
      {"the product", {1, 2}, [](Dataset d) { return d.repeat(4); }, "1 2 1 2 1 2 1 2"},
      {"of nothing", {}, [](Dataset d) { return d.repeat(3); }, ""},
      {"infinite of nothing ends", {}, [](Dataset d) { return d.repeat(); }, ""},
      {"infinite of a filter that drops all ends",
       {1, 2, 3},
       [](Dataset d) { return d.filter([](const Element&) { return false; }).repeat(); },
       ""},
      {"batched behind",
       {1, 2, 3},
       [](Dataset d) { return d.repeat(2).batch(4); },
       "1 2 3 1 | 2 3"},
      {"batched before",
       {1, 2, 3},
       [](Dataset d) { return d.batch(2).repeat(2); },
       "1 2 | 3 | 1 2 | 3"},
  });
}

TEST(Repeat, InfiniteRun) {
  const std::string ten = run(numbers(3).repeat().batch(2), {}, 5);
  EXPECT_EQ(ten, "0 1 | 2 0 | 1 2 | 0 1 | 2 0");
}

TEST(Repeat, GoesOnBehindAPassOfNothing) {
  const Dataset one = numbers(10).shuffle().take(1);
  const auto is_three = [](const Element& e) { return x_of(e) == 3; };
  std::size_t threes = 0;
  for (const std::int64_t x : test::values(one.repeat(100))) threes += x == 3 ? 1 : 0;
  const Dataset seldom = one.filter(is_three).repeat(100);
  EXPECT_GT(threes, 1U);
  for (std::size_t i = 0; i <= threes; ++i) {  // and where a run was saved within or behind one
    Iterator iterator = seldom.iterate();
    for (std::size_t k = 0; k < i; ++k) EXPECT_EQ(x_of(*iterator.next()), 3);
    Iterator restored = seldom.restore(iterator.save());
    for (std::size_t k = i; k < threes; ++k) EXPECT_EQ(x_of(*restored.next()), 3);
    EXPECT_TRUE(restored.next().is_end());
  }
}

TEST(Repeat, OfNothingForVeryLongEndsOrCanBeCancelled) {
  constexpr std::int64_t kLong = INT64_MAX;
  expect_vectors({{"known to be empty", numbers(0).repeat(kLong), ""},
                  {"behind take", numbers(5).take(0).shuffle().repeat(kLong).batch(2), ""}});
  Iterator iterator =
      numbers(5).filter([](const Element&) { return false; }).repeat(kLong).batch(2).iterate();
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    iterator.cancel();
  });
  const Next next = iterator.next();
  canceller.join();
  ASSERT_TRUE(next.is_error());
  EXPECT_EQ(next.error().code(), ErrorCode::cancelled);
}

TEST(Take, KeepsTheFirst) {
  expect_cases({
      {"4", iota(10), [](Dataset d) { return d.take(4); }, "0 1 2 3"},
      {"one short", iota(3), [](Dataset d) { return d.take(2); }, "0 1"},
      {"exactly", iota(3), [](Dataset d) { return d.take(3); }, "0 1 2"},
      {"one over", iota(3), [](Dataset d) { return d.take(4); }, "0 1 2"},
      {"25 of 10", iota(10), [](Dataset d) { return d.take(25); }, "0 1 2 3 4 5 6 7 8 9"},
      {"-1 is all", iota(10), [](Dataset d) { return d.take(-1); }, "0 1 2 3 4 5 6 7 8 9"},
      {"-7 is all", iota(3), [](Dataset d) { return d.take(-7); }, "0 1 2"},
      {"0", iota(10), [](Dataset d) { return d.take(0); }, ""},
      {"repeated", iota(10), [](Dataset d) { return d.take(2).repeat(2); }, "0 1 0 1"},
      {"of a take", iota(10), [](Dataset d) { return d.take(5).take(3); }, "0 1 2"},
  });
}

TEST(Take, OfNothingAsksForNothing) {
  auto pulled = std::make_shared<std::atomic<int>>(0);
  EXPECT_EQ(run(counted(10, pulled).take(0)), "");
  EXPECT_EQ(*pulled, 0);
  EXPECT_EQ(run(counted(10, pulled).take(3)), "0 1 2");
  EXPECT_EQ(*pulled, 3);
}

TEST(Skip, DropsTheFirst) {
  expect_cases({
      {"7", iota(10), [](Dataset d) { return d.skip(7); }, "7 8 9"},
      {"0", iota(3), [](Dataset d) { return d.skip(0); }, "0 1 2"},
      {"one short", iota(3), [](Dataset d) { return d.skip(2); }, "2"},
      {"exactly", iota(3), [](Dataset d) { return d.skip(3); }, ""},
      {"one over", iota(3), [](Dataset d) { return d.skip(4); }, ""},
      {"25 of 10", iota(10), [](Dataset d) { return d.skip(25); }, ""},
      {"-1 is empty", iota(10), [](Dataset d) { return d.skip(-1); }, ""},
      {"-7 is empty", iota(10), [](Dataset d) { return d.skip(-7); }, ""},
      {"-1 of an infinite input is empty", iota(3), [](Dataset d) { return d.repeat().skip(-1); },
       ""},
      {"of an infinite input", iota(3), [](Dataset d) { return d.repeat().skip(4).take(3); },
       "1 2 0"},
      {"then take", iota(10), [](Dataset d) { return d.skip(3).take(2); }, "3 4"},
      {"behind take", iota(10), [](Dataset d) { return d.take(3).skip(2); }, "2"},
  });
}

TEST(Skip, OfAllKeepsAnIndexOfNothing) {
  const Dataset none = numbers(10).skip(-1);
  expect_vectors({{"shuffle", none.shuffle(), ""},
                  {"contiguous shard", none.shard(2, 1, {.contiguous = true}), ""},
                  {"select", none.select({}), ""},
                  {"concatenate", none.concatenate(numbers(3)).shard(3, 1), "1"}});
  EXPECT_EQ(test::values(numbers(4).concatenate(none).shuffle()).size(), 4U);
}

TEST(TakeWhile, StopsAtTheFirstNo) {
  const auto below = [](std::int64_t limit) {
    return [limit](Dataset d) {
      return d.take_while([limit](const Element& e) { return x_of(e) < limit; });
    };
  };
  expect_cases({
      {"below 4", iota(10), below(4), "0 1 2 3"},
      {"what comes later is not looked at", {1, 2, 9, 1, 2}, below(4), "1 2"},
      {"none", iota(10), below(0), ""},
      {"all", iota(3), below(10), "0 1 2"},
      {"of nothing", {}, below(10), ""},
  });
  expect_vectors({{"of an infinite input", below(3)(numbers(4).repeat().skip(1)), "1 2"}});
}

TEST(Filter, KeepsWhatThePredicateWants) {
  const auto keep = [](auto predicate) {
    return [predicate](Dataset d) {
      return d.filter([predicate](const Element& e) { return predicate(x_of(e)); });
    };
  };
  expect_cases({
      {"below 3", {1, 2, 3}, keep([](std::int64_t x) { return x < 3; }), "1 2"},
      {"odd", iota(10), keep([](std::int64_t x) { return x % 2 == 1; }), "1 3 5 7 9"},
      {"all", iota(3), keep([](std::int64_t) { return true; }), "0 1 2"},
      {"none", iota(1000), keep([](std::int64_t) { return false; }), ""},
      {"of nothing", {}, keep([](std::int64_t) { return true; }), ""},
  });
}

TEST(Enumerate, Counts) {
  expect_cases({
      {"from 0", {7, 8, 9}, [](Dataset d) { return d.enumerate(); }, "(7, 0) (8, 1) (9, 2)"},
      {"from 5", {7, 8, 9}, [](Dataset d) { return d.enumerate(5); }, "(7, 5) (8, 6) (9, 7)"},
      {"from -1", {7, 8}, [](Dataset d) { return d.enumerate(-1, "i"); }, "(7, -1) (8, 0)"},
      {"of nothing", {}, [](Dataset d) { return d.enumerate(); }, ""},
      {"behind a shard", iota(6), [](Dataset d) { return d.shard(2, 1).enumerate(); },
       "(1, 0) (3, 1) (5, 2)"},
      {"before a shard", iota(6), [](Dataset d) { return d.enumerate().shard(2, 1); },
       "(1, 1) (3, 3) (5, 5)"},
      {"before a repeat", iota(2), [](Dataset d) { return d.enumerate().repeat(2); },
       "(0, 0) (1, 1) (0, 0) (1, 1)"},
      {"behind a repeat", iota(2), [](Dataset d) { return d.repeat(2).enumerate(); },
       "(0, 0) (1, 1) (0, 2) (1, 3)"},
  });
  EXPECT_EQ(numbers(3).enumerate(0, "i").spec(),
            Spec({{"x", DType::i64, Shape()}, {"i", DType::i64, Shape()}}));
  expect_error(ErrorCode::invalid_argument, "x", [] { (void)numbers(3).enumerate(0, "x"); });
}

TEST(Zip, EndsWithTheShortest) {
  for (const test::NamedDataset& a : test::inputs_of({1, 2})) {
    for (const test::NamedDataset& b : test::inputs_of({13, 14, 15})) {
      const Dataset other = renamed(b.dataset, "y");
      expect_vectors({
          {a.name + " and " + b.name, zip({a.dataset, other}), "(1, 13) (2, 14)"},
          {b.name + " and " + a.name, zip({other, a.dataset}), "(13, 1) (14, 2)"},
          {"one infinite", zip({a.dataset.repeat(), other}), "(1, 13) (2, 14) (1, 15)"},
      });
    }
  }
  expect_vectors({
      {"of one", zip({numbers(3)}), "0 1 2"},
      {"with nothing", zip({numbers(3), renamed(numbers(0), "y")}), ""},
      {"with nothing, first", zip({renamed(numbers(0), "y"), numbers(3)}), ""},
      {"of three",
       zip({numbers(3), renamed(numbers({5, 6}), "y"), renamed(stream({8, 9, 10}), "z")}),
       "(0, 5, 8) (1, 6, 9)"},
      {"of a zip", zip({zip({numbers(3), renamed(numbers(2), "y")}), renamed(numbers(9), "z")}),
       "(0, 0, 0) (1, 1, 1)"},
      {"batched", zip({numbers(3), renamed(numbers({5, 6, 7}), "y")}).batch(2),
       "(0 1, 5 6) | (2, 7)"},
  });
}

TEST(Zip, KeepsPullingAfterOneEnded) {
  for (const auto& [a, b, pulls_a, pulls_b] :
       std::vector<std::array<int, 4>>{{2, 5, 2, 3}, {5, 2, 3, 2}, {3, 3, 3, 3}}) {
    auto first = std::make_shared<std::atomic<int>>(0);
    auto second = std::make_shared<std::atomic<int>>(0);
    const Dataset both =
        zip({counted(a, first), counted(b, second).enumerate(0, "y").map(
                                    [](Element element) {
                                      return Element({{"y", element["y"]}});
                                    },
                                    {.output = Spec({{"y", DType::i64, Shape()}})})});
    (void)run(both);
    EXPECT_EQ(*first, pulls_a) << a << " and " << b;
    EXPECT_EQ(*second, pulls_b) << a << " and " << b;
  }
}

TEST(Zip, RefusesEqualNamesAndNoInputs) {
  expect_error(ErrorCode::invalid_argument, "x", [] { (void)zip({numbers(3), numbers(3)}); });
  expect_error(ErrorCode::invalid_argument, "no inputs", [] { (void)zip({}); });
}

TEST(Concatenate, OneAfterTheOther) {
  for (const test::NamedDataset& a : test::inputs_of({1, 2, 3})) {
    for (const test::NamedDataset& b : test::inputs_of({4, 5, 6, 7})) {
      expect_vectors(
          {{a.name + " and " + b.name, a.dataset.concatenate(b.dataset), "1 2 3 4 5 6 7"}});
    }
  }
  expect_vectors({
      {"with nothing", numbers(2).concatenate(numbers(0)), "0 1"},
      {"nothing first", numbers(0).concatenate(numbers(2)), "0 1"},
      {"sharded over the border", numbers({1, 2, 3}).concatenate(numbers({4, 5})).shard(2, 1),
       "2 4"},
      {"skipped over the border", numbers({1, 2, 3}).concatenate(stream({4, 5})).skip(4), "5"},
      {"with itself", numbers(2).concatenate(numbers(2)).repeat(2), "0 1 0 1 0 1 0 1"},
      {"batched", numbers(3).concatenate(numbers({5, 6})).batch(2), "0 1 | 2 5 | 6"},
  });
}

TEST(Concatenate, RelaxesShapesAndRefusesTypes) {
  const auto shaped = [](std::int64_t n, DType dtype = DType::i64) {
    return numbers(1).map(
        [=](Element) {
          return Element(
              {{"x", Tensor::of<std::int64_t>(
                         {n}, std::vector<std::int64_t>(static_cast<std::size_t>(n), n))}});
        },
        {.output = Spec({{"x", dtype, Shape{n}}})});
  };
  const Dataset both = shaped(2).concatenate(shaped(3));
  EXPECT_EQ(both.spec()[0].shape, Shape{Shape::kUnknown});
  EXPECT_EQ(run(both), "2 2 3 3 3");
  expect_error(ErrorCode::invalid_argument, "f32",
               [&] { (void)shaped(2).concatenate(shaped(2, DType::f32)); });
  expect_error(ErrorCode::invalid_argument, "y",
               [&] { (void)numbers(2).concatenate(renamed(numbers(2), "y")); });
}

TEST(Prefetch, ChangesNothing) {
  for (const std::int64_t count : {-1, 0, 1, 2, 7}) {
    expect_over_inputs(
        "prefetch " + std::to_string(count), iota(9), [&](Dataset d) { return d.prefetch(count); },
        "0 1 2 3 4 5 6 7 8");
    expect_over_inputs(
        "batches", iota(5), [&](Dataset d) { return d.batch(2).prefetch(count); }, "0 1 | 2 3 | 4");
  }
  for (const std::int64_t count : {-2, -100}) {
    expect_error(ErrorCode::invalid_argument, "prefetch",
                 [&] { (void)numbers(3).prefetch(count); });
  }
}

TEST(Prefetch, DeliversErrorsInTheirPlace) {
  for (const std::int64_t count : {0, 1, 5}) {
    expect_vectors({{"prefetch", test::failing_at(numbers(4), 2).prefetch(count), "0 1 E 3"}});
  }
}

}  // namespace
}  // namespace penstock
