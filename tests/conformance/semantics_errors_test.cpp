// Errors in their place: what an error costs in each stage, under `fail` and under `skip`.
#include <gtest/gtest.h>

#include <penstock/sources.h>

#include "tests/support/errors.h"
#include "tests/support/figure.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace semantics_errors_test {

using test::failing_at;
using test::iota;
using test::numbers;
using test::run;
using test::stream;
using test::x_of;
using test::x_spec;

/// Fails every element whose x is one of `bad`.
Dataset failing(const Dataset& input, std::vector<std::int64_t> bad) {
  return input.map(
      [bad = std::move(bad)](Element element) {
        if (std::count(bad.begin(), bad.end(), x_of(element)) > 0) {
          throw std::runtime_error("bad element");
        }
        return element;
      },
      {.name = "failing"});
}

struct Case {
  std::string name;
  Dataset dataset;
  std::string fail;
  std::string skip;
};

void expect_cases(const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    test::expect_vectors({{test.name, test.dataset, test.fail},
                          {test.name, test.dataset, test.skip, {.on_error = OnError::skip}}});
  }
}

TEST(Errors, ComeOnceAndTheRestFollows) {
  const auto yes = [](const Element&) { return true; };
  const auto throws = [](const Element& element) -> bool {
    if (x_of(element) == 1) throw std::runtime_error("no verdict");
    return true;
  };
  expect_cases({
      {"map", failing_at(numbers(4), 1), "0 E 2 3", "0 2 3"},
      {"map of a stream", failing_at(stream(iota(4)), 1), "0 E 2 3", "0 2 3"},
      {"first", failing_at(numbers(3), 0), "E 1 2", "1 2"},
      {"last", failing_at(numbers(3), 2), "0 1 E", "0 1"},
      {"all", failing(numbers(3), {0, 1, 2}), "E E E", ""},
      {"only", failing_at(numbers(1), 0), "E", ""},
      {"filter", numbers(4).filter(throws), "0 E 2 3", "0 2 3"},
      {"before filter", failing_at(numbers(4), 1).filter(yes), "0 E 2 3", "0 2 3"},
      {"take_while", numbers(4).take_while(throws), "0 E 2 3", "0 2 3"},
      {"behind the end of take_while",
       failing_at(numbers(6), 4).take_while([](const Element& e) { return x_of(e) < 3; }), "0 1 2",
       "0 1 2"},
      {"map behind map", failing_at(failing_at(numbers(5), 1), 3), "0 E 2 E 4", "0 2 4"},
      {"prefetch", failing_at(numbers(4), 1).prefetch(2), "0 E 2 3", "0 2 3"},
      {"repeat", failing_at(numbers(2), 1).repeat(2), "0 E 0 E", "0 0"},
      {"concatenate", failing_at(numbers(2), 1).concatenate(numbers(2)), "0 E 0 1", "0 0 1"},
  });
}

TEST(Errors, NotCountedByTakeAndSkip) {
  expect_cases({
      {"take", failing_at(numbers(4), 0).take(2), "E 1 2", "1 2"},
      {"take, error behind", failing_at(numbers(4), 2).take(2), "0 1", "0 1"},
      {"take all", failing_at(numbers(3), 0).take(-1), "E 1 2", "1 2"},
      {"skip", failing_at(numbers(5), 0).skip(2), "E 3 4", "3 4"},
      {"skip, error behind", failing_at(numbers(5), 3).skip(2), "2 E 4", "2 4"},
      {"skip nothing", failing_at(numbers(2), 0).skip(0), "E 1", "1"},
  });
}

// tf.data does not count it, so that other shards' elements would come.
TEST(Errors, CountedByShard) {
  expect_cases({
      {"2,0", failing_at(numbers(6), 1).shard(2, 0), "0 2 4", "0 2 4"},
      {"2,1", failing_at(numbers(6), 1).shard(2, 1), "E 3 5", "3 5"},
      {"3,0", failing_at(numbers(12), 3).shard(3, 0), "0 E 6 9", "0 6 9"},
      {"of a stream", failing_at(stream(iota(12)), 3).shard(3, 0), "0 E 6 9", "0 6 9"},
  });
}

TEST(Errors, CostABatchWhatWasInItSoFar) {
  expect_cases({
      {"second", failing_at(numbers(6), 1).batch(2), "E | 2 3 | 4 5", "0 2 | 3 4 | 5"},
      {"first", failing_at(numbers(6), 2).batch(2), "0 1 | E | 3 4 | 5", "0 1 | 3 4 | 5"},
      {"two in one", failing(numbers(6), {0, 1}).batch(3), "E | E | 2 3 4 | 5", "2 3 4 | 5"},
      {"in the last, partial", failing_at(numbers(5), 4).batch(2), "0 1 | 2 3 | E", "0 1 | 2 3"},
      {"in the middle of the last, partial", failing_at(numbers(6), 4).batch(4), "0 1 2 3 | E | 5",
       "0 1 2 3 | 5"},
      {"dropping the remainder", failing_at(numbers(5), 1).batch(2, {.drop_remainder = true}),
       "E | 2 3", "0 2 | 3 4"},
      {"padded, second", failing_at(numbers(6), 1).padded_batch(2), "E | 2 3 | 4 5",
       "0 2 | 3 4 | 5"},
      {"padded, first", failing_at(numbers(6), 2).padded_batch(2), "0 1 | E | 3 4 | 5",
       "0 1 | 3 4 | 5"},
      {"unbatch", failing_at(numbers(5), 1).batch(2).unbatch(), "E 2 3 4", "0 2 3 4"},
      {"a whole batch", numbers(6).batch(2).map([](Element element) {
         if (element["x"].values<std::int64_t>()[0] == 2) throw std::runtime_error("bad batch");
         return element;
       }),
       "0 1 | E | 4 5", "0 1 | 4 5"},
  });
}

TEST(Errors, OfATupleDropTheWholeTuple) {
  const auto y = [](const Dataset& input) {
    return input.map(
        [](Element e) {
          return Element({{"y", e[0]}});
        },
        {.output = Spec({{"y", DType::i64, Shape()}})});
  };
  expect_cases({
      {"first", zip({failing_at(numbers({1, 2, 0, 4}), 0), y(numbers(4))}),
       "(1, 0) (2, 1) E (4, 3)", "(1, 0) (2, 1) (4, 3)"},
      {"second", zip({numbers(4), y(failing_at(numbers(4), 2))}), "(0, 0) (1, 1) E (3, 3)",
       "(0, 0) (1, 1) (3, 3)"},
      {"both", zip({failing_at(numbers(4), 1), y(failing_at(numbers(4), 2))}), "(0, 0) E E (3, 3)",
       "(0, 0) (3, 3)"},
      {"streams", zip({failing_at(stream(iota(3)), 1), y(stream(iota(3)))}), "(0, 0) E (2, 2)",
       "(0, 0) (2, 2)"},
      {"enumerate", failing_at(numbers(3), 1).enumerate(), "(0, 0) E (2, 2)", "(0, 0) (2, 2)"},
  });
}

TEST(Errors, OfMixturesUseUpTheirChoice) {
  const Dataset choices = numbers({0, 1, 0, 1, 0});
  expect_cases({
      {"an input", choose_from({failing_at(numbers(3), 1), numbers({8, 9})}, choices), "0 8 E 9 2",
       "0 8 9 2"},
      {"the choices",
       choose_from({numbers(3), numbers({8, 9})}, numbers({0, 1, 5, 1, 0}).map([](Element element) {
         if (x_of(element) == 5) throw std::runtime_error("no choice");
         return element;
       })),
       "0 8 E 9 1", "0 8 9 1"},
      {"sampled", sample_from({failing_at(numbers(3), 1)}, {1}), "0 E 2", "0 2"},
  });
}

TEST(Errors, OfAStreamComeInTheirPlace) {
  const Dataset dataset{make_generate_source(
      []() -> Generator {
        return [next = std::int64_t{0}](Element& out) mutable {
          if (next == 5) return false;
          const std::int64_t x = next++;
          if (x % 2 == 1) throw std::runtime_error("can't make this one");
          out = test::x_element(x);
          return true;
        };
      },
      x_spec(), "odd")};
  expect_cases({{"generate", dataset, "0 E 2 E 4", "0 2 4"},
                {"batched", dataset.batch(2), "E | E | 4", "0 2 | 4"}});
  const std::vector<Error> errors = test::errors(dataset);
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_EQ(errors[0].code(), ErrorCode::user);
  EXPECT_EQ(errors[1].where().index, 3);
  EXPECT_EQ(errors[1].where().shard, "odd");
}

TEST(Errors, BehindAStreamKnowTheRecord) {
  for (const Dataset& dataset :
       {failing_at(stream(iota(5)), 3),
        failing_at(stream(iota(5)), 3).filter([](const Element&) { return true; }),
        failing_at(stream(iota(5)).filter([](const Element&) { return true; }), 3),
        failing_at(stream(iota(5)), 3).batch(2)}) {
    const std::vector<Error> errors = test::errors(dataset);
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].where().index, 3);
    EXPECT_EQ(errors[0].where().shard, "number_stream");
    EXPECT_EQ(errors[0].where().offset, 24);
    EXPECT_NE(errors[0].where().stage.find("failing"), std::string::npos);
  }
}

TEST(Errors, KnowTheRecordAndTheStageThroughEveryStage) {
  const auto yes = [](const Element&) { return true; };
  const auto bad = [](const Dataset& input) { return failing_at(input, 3); };
  const std::vector<std::pair<std::string, Dataset>> datasets{
      {"map", bad(numbers(5))},
      {"map behind filter", bad(numbers(5).filter(yes))},
      {"filter behind map", bad(numbers(5)).filter(yes)},
      {"batch", bad(numbers(5)).batch(2)},
      {"padded_batch", bad(numbers(5)).padded_batch(2)},
      {"shuffle", bad(numbers(5).shuffle({.buffer = 3}))},
      {"perfect shuffle", bad(numbers(5)).shuffle()},
      {"shard and skip", bad(numbers(5)).skip(1).shard(2, 0)},
      {"repeat", bad(numbers(5)).repeat(1)},
      {"enumerate", bad(numbers(5).enumerate())},
      {"flat_map", bad(numbers(1).flat_map([](const Element&) { return numbers(5); }, x_spec()))},
      {"in flat_map",
       numbers(1).flat_map([](const Element&) { return failing_at(numbers(5), 3); }, x_spec())},
      {"cache", bad(numbers(5)).cache()},
      {"unordered", numbers(5).map(
                        [](Element element) {
                          if (x_of(element) == 3) throw std::runtime_error("bad");
                          return element;
                        },
                        {.name = "failing", .ordered = false})},
  };
  for (const auto& [name, dataset] : datasets) {
    const std::vector<Error> errors = test::errors(dataset);
    ASSERT_EQ(errors.size(), 1U) << name;
    EXPECT_EQ(errors[0].code(), ErrorCode::user) << name;
    EXPECT_EQ(errors[0].where().shard, "numbers") << name;
    EXPECT_EQ(errors[0].where().index, 3) << name;
    EXPECT_EQ(errors[0].where().offset, 24) << name;
    EXPECT_NE(errors[0].where().stage.find("map"), std::string::npos) << name;
    EXPECT_THROW(std::rethrow_exception(errors[0].original()), std::runtime_error) << name;
  }
}

/// What a user's callable may throw.
struct Mine {
  std::int64_t at;
};

TEST(Errors, OfEveryCallableAtEveryPositionAreTheOriginals) {
  using Build = std::function<Dataset(std::int64_t)>;
  const auto check = [](const Element& element, std::int64_t bad) {
    if (x_of(element) == bad) throw Mine{bad};
  };
  const auto keep = [check](std::int64_t bad) {
    return [=](const Element& element) {
      check(element, bad);
      return true;
    };
  };
  const auto open = [check](std::int64_t bad) {
    return [=](const Element& element) {
      check(element, bad);
      return numbers({x_of(element)});
    };
  };
  const auto same = [check](std::int64_t bad) {
    return [=](Element element) {
      check(element, bad);
      return element;
    };
  };
  const auto number = [check](std::int64_t bad) {
    return [=](const Element& element) {
      check(element, bad);
      return std::int64_t{0};
    };
  };
  constexpr std::int64_t kSize = 6;
  const Dataset in = numbers(kSize);
  const std::vector<std::pair<std::string, Build>> builds{
      {"map", [&](auto bad) { return in.map(same(bad)); }},
      {"map of a stream", [&](auto bad) { return stream(iota(kSize)).map(same(bad)); }},
      {"blocking map", [&](auto bad) { return in.map(same(bad), {.blocking = true}); }},
      {"unordered map", [&](auto bad) { return in.map(same(bad), {.ordered = false}); }},
      {"map into views",
       [&](auto bad) {
         return in.map(
             [=](const Element& from, Element& to, Rng&) {
               check(from, bad);
               to[0].mutable_values<std::int64_t>()[0] = x_of(from);
             },
             {.output = x_spec()});
       }},
      {"filter", [&](auto bad) { return in.filter(keep(bad)); }},
      {"take_while", [&](auto bad) { return in.take_while(keep(bad)); }},
      {"flat_map", [&](auto bad) { return in.flat_map(open(bad), x_spec()); }},
      {"interleave", [&](auto bad) { return in.interleave(open(bad), x_spec(), {.cycle = 2}); }},
      {"map in a batch", [&](auto bad) { return in.map(same(bad)).batch(1); }},
      {"scan",
       [&](auto bad) {
         return in.scan(test::x_element(0), [=](const Element& state, Element element) {
           check(element, bad);
           return std::pair(state, std::move(element));
         });
       }},
      {"key of a group", [&](auto bad) { return in.group_by_window(number(bad), {.size = 2}); }},
      {"length of a bucket",
       [&](auto bad) {
         return in.bucket_by_length({.length = number(bad), .bounds = {3}, .sizes = {2, 2}});
       }},
      {"class of a resample", [&](auto bad) { return in.rejection_resample(number(bad), {1.0}); }},
      {"window of a dataset",
       [&](auto bad) {
         return in.window(2, [=](const Dataset& window) { return window.map(same(bad)); });
       }},
  };
  for (const auto& [name, build] : builds) {
    for (std::int64_t bad = 0; bad < kSize; ++bad) {
      for (const int threads : {1, 4}) {
        const std::vector<Error> errors = test::errors(build(bad), {.threads = threads});
        ASSERT_EQ(errors.size(), 1U) << name << bad;
        EXPECT_EQ(errors[0].code(), ErrorCode::user) << name << bad;
        EXPECT_EQ(errors[0].where().index, bad) << name << bad;
        try {
          std::rethrow_exception(errors[0].original());
        } catch (const Mine& mine) {
          EXPECT_EQ(mine.at, bad) << name;
        } catch (...) {
          ADD_FAILURE() << name << bad << ": another exception";
        }
      }
      EXPECT_EQ(test::errors(build(-1)).size(), 0U) << name;
    }
  }
  test::figure("F14", "%zu kinds of callables throw at %d positions: each time the original, once",
               builds.size(), static_cast<int>(kSize));
}

TEST(Errors, AreCountedAndKept) {
  for (const OnError policy : {OnError::fail, OnError::skip}) {
    Iterator iterator = failing(numbers(50), {3, 30, 31}).batch(4).iterate({.on_error = policy});
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    }
    const Stats stats = iterator.stats();
    EXPECT_EQ(stats.errors.count, 3U);
    ASSERT_EQ(stats.errors.first.size(), 3U);
    EXPECT_EQ(stats.errors.first[0].where().index, 3);
    EXPECT_EQ(stats.errors.first[2].where().index, 31);
    if (policy == OnError::skip) {
      EXPECT_EQ(stats.elements, 47U);
    }
  }
}

// However many elements are made when the last one is reached.
TEST(Errors, BehindTheEndOfTakeWhileAreNotCounted) {
  const Dataset few =
      failing_at(numbers(400), 201).take_while([](const Element& e) { return x_of(e) < 200; });
  const Dataset nested = numbers(1).flat_map([=](const Element&) { return few; }, x_spec());
  for (int i = 0; i < 20; ++i) {
    for (const Dataset& dataset : {few, nested}) {
      Iterator iterator = dataset.iterate({.threads = 2, .on_error = OnError::skip});
      while (iterator.next().has_value()) {
      }
      EXPECT_EQ(iterator.stats().elements, 200U);
      EXPECT_EQ(iterator.stats().errors.count, 0U);
    }
  }
}

TEST(Errors, BeyondTheBudgetEndTheRun) {
  const Dataset dataset = failing(numbers(1000), {5, 50, 500});
  for (const Dataset& shape : {dataset, dataset.batch(8), dataset.padded_batch(8),
                               dataset.filter([](const Element&) { return true; }).batch(8)}) {
    for (const std::uint64_t most : {0, 1, 2}) {
      Iterator iterator =
          shape.iterate({.threads = 2, .on_error = OnError::skip, .max_errors = most});
      Next next = iterator.next();
      while (next.has_value()) next = iterator.next();
      ASSERT_TRUE(next.is_error());
      EXPECT_EQ(next.error().where().index, most == 0 ? 5 : most == 1 ? 50 : 500);
      EXPECT_NE(std::string(next.error().what()).find("budget"), std::string::npos);
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(iterator.next().is_end());
    }
    EXPECT_EQ(run(shape, {.on_error = OnError::skip, .max_errors = 3}).find('E'),
              std::string::npos);
  }
}

TEST(Errors, BeyondTheShareEndTheRun) {
  std::vector<std::int64_t> bad;
  for (std::int64_t i = 0; i < 1000; i += 20) bad.push_back(i);
  const Dataset dataset = failing(numbers(1000), bad).batch(10);
  EXPECT_EQ(run(dataset, {.on_error = OnError::skip, .max_error_share = 0.06}).find('E'),
            std::string::npos);
  const std::string text = run(dataset, {.on_error = OnError::skip, .max_error_share = 0.04});
  EXPECT_EQ(text.substr(text.size() - 1), "E");
}

}  // namespace semantics_errors_test
}  // namespace penstock
