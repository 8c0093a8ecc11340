// Traps that each took somebody a day: one test for each.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <penstock/sources.h>

#include "tests/support/canceller.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::expect_vectors;
using test::failing_at;
using test::iota;
using test::numbers;
using test::run;
using test::values;
using test::x_of;
using test::x_spec;

/// `count` numbers as a stream, counting how often it was asked.
Dataset asked(std::int64_t count, std::shared_ptr<std::atomic<int>> asks) {
  return Dataset(make_generate_source(
      [=]() -> Generator {
        return [=, next = std::int64_t{0}](Element& out) mutable {
          ++*asks;
          if (next == count) return false;
          out = test::x_element(next++);
          return true;
        };
      },
      x_spec(), "asked"));
}

TEST(Trap, ShuffleSavedAtTheBorderOfEpochs) {
  for (const std::uint64_t buffer : {0, 3, 100}) {
    const Dataset dataset = numbers(10).shuffle({.buffer = buffer});
    const RunOptions options{.seed = 8, .epochs = 3};
    std::vector<std::vector<std::int64_t>> epochs(3);
    std::vector<std::string> at_end;
    std::vector<std::string> at_begin;
    Iterator iterator = dataset.iterate(options);
    for (std::vector<std::int64_t>& epoch : epochs) {
      at_begin.push_back(iterator.save());
      for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
        epoch.push_back(x_of(*next));
      }
      at_end.push_back(iterator.save());
      (void)iterator.next_epoch();
    }
    EXPECT_NE(epochs[0], epochs[1]);
    for (std::size_t i = 0; i < 3; ++i) {
      Iterator begun = dataset.restore(at_begin[i], options);
      for (const std::int64_t x : epochs[i]) EXPECT_EQ(x_of(*begun.next()), x);
      EXPECT_TRUE(begun.next().is_end());
      Iterator ended = dataset.restore(at_end[i], options);
      EXPECT_TRUE(ended.next().is_end());
      EXPECT_EQ(ended.next_epoch(), i < 2);
      if (i == 2) continue;
      for (const std::int64_t x : epochs[i + 1]) EXPECT_EQ(x_of(*ended.next()), x);
    }
  }
}

TEST(Trap, InfiniteRepeatOfNothing) {
  const auto none = [](const Element&) { return false; };
  const std::vector<std::pair<std::string, Dataset>> nothing{
      {"filter", numbers(100).filter(none)},
      {"take", numbers(100).take(0)},
      {"take_while", numbers(100).take_while(none)},
      {"empty", numbers(0)},
      {"stream", test::stream({})},
      {"flat_map", numbers(5).flat_map([](const Element&) { return numbers(0); }, x_spec())},
      {"window", numbers(5).window(9, {.drop_remainder = true})},
      {"ignore_errors", failing_at(numbers({3, 3}), 3).ignore_errors()},
      {"bucket",
       numbers(5).bucket_by_length({.length = x_of, .sizes = {9}, .drop_remainder = true})},
      {"resample", numbers(9).rejection_resample([](const Element&) { return 0; }, {0, 1})},
  };
  for (const auto& [name, dataset] : nothing) EXPECT_EQ(run(dataset.repeat()), "") << name;
}

TEST(Trap, CancelWhileBlocked) {
  auto open = std::make_shared<std::atomic<bool>>(false);
  const auto stuck_at = [open](std::int64_t first) {
    return numbers(1000).map(
        [open, first](Element element) {
          while (!*open && x_of(element) >= first) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          return element;
        },
        {.name = "stuck", .blocking = true});
  };
  const std::vector<std::pair<std::string, Dataset>> blocked{
      {"get", stuck_at(0)},
      {"get of batches", stuck_at(3).batch(2)},
      {"prefetch", stuck_at(3).prefetch(4)},
      {"interleave", stuck_at(3).interleave([](const Element& e) { return numbers({x_of(e)}); },
                                            x_spec(), {.cycle = 2})},
      {"group_by_window", stuck_at(3).group_by_window(x_of, {.size = 2})},
      {"window", stuck_at(3).window(5)},
  };
  for (const auto& [name, dataset] : blocked) {
    *open = false;
    Iterator iterator = dataset.iterate({.threads = 2});
    test::Canceller canceller(iterator, *open);
    Next next = iterator.next();
    while (next.has_value()) next = iterator.next();
    canceller.woken();
    ASSERT_TRUE(next.is_error()) << name;
    EXPECT_EQ(next.error().code(), ErrorCode::cancelled) << name;
  }
  // Blocked in put: nobody takes what is ready.
  Iterator full = numbers(100000).batch(2).iterate({.threads = 2, .slots = 1});
  EXPECT_TRUE(full.next().has_value());
  full.cancel();
  EXPECT_EQ(full.next().error().code(), ErrorCode::cancelled);
}

TEST(Trap, AnErrorInTheLastPartialBatch) {
  expect_vectors({
      {"fail", failing_at(numbers(5), 4).batch(3), "0 1 2 | E"},
      {"and one behind", failing_at(numbers(5), 3).batch(3), "0 1 2 | E | 4"},
      {"skip", failing_at(numbers(5), 4).batch(3), "0 1 2 | 3", {.on_error = OnError::skip}},
      {"dropping", failing_at(numbers(5), 4).batch(3, {.drop_remainder = true}), "0 1 2 | E"},
      {"ragged",
       failing_at(numbers(5), 4)
           .map(
               [](Element e) {
                 return Element({{"x", e["x"].reshape({1})}});
               },
               {.output = Spec({{"x", DType::i64, {Shape::kUnknown}}})})
           .ragged_batch(3),
       "(0 1 2, 0 1 2 3) | E"},
  });
}

TEST(Trap, PrefetchOfNothing) {
  expect_vectors({{"0", numbers(5).prefetch(0), "0 1 2 3 4"},
                  {"-1", numbers(5).prefetch(-1).batch(2).prefetch(0), "0 1 | 2 3 | 4"}});
}

TEST(Trap, TakeOfNothing) {
  auto asks = std::make_shared<std::atomic<int>>(0);
  EXPECT_EQ(run(asked(5, asks).take(0)), "");
  EXPECT_EQ(run(asked(5, asks).filter([](const Element&) { return true; }).take(0).batch(2)), "");
  EXPECT_EQ(run(asked(5, asks).repeat(0)), "");
  EXPECT_EQ(*asks, 0);
}

TEST(Trap, BatchesOfElementsOfNoSize) {
  const Dataset empty = numbers(5).map(
      [](Element) {
        return Element({{"x", Tensor::of<std::int64_t>({0}, {})}});
      },
      {.output = Spec({{"x", DType::i64, {0}}})});
  for (const Dataset& dataset :
       {empty.batch(2), empty.padded_batch(2), empty.window(2), empty.batch(1).rebatch(2)}) {
    Iterator iterator = dataset.iterate();
    for (const std::int64_t rows : {2, 2, 1}) {
      const Element batch = *iterator.next();
      EXPECT_EQ(batch.valid_rows, rows);
      EXPECT_EQ(batch[0].shape(), (Shape{rows, 0}));
    }
    EXPECT_TRUE(iterator.next().is_end());
  }
}

TEST(Trap, AShardOfFewerElementsThanShards) {
  EXPECT_EQ(run(numbers(3).shard(10, 2)), "2");
  EXPECT_EQ(run(numbers(3).shard(10, 3)), "");
  EXPECT_EQ(run(test::stream({0, 1, 2}).shard(10, 9).batch(2)), "");
  EXPECT_EQ(run(numbers(3).shard(10, 3).repeat()), "");
}

TEST(Trap, AMixtureWithOneInfiniteInput) {
  const Dataset mixture = sample_from({numbers({7}).repeat(), numbers({1, 2, 3})}, {0.5, 0.5});
  Iterator iterator = mixture.iterate({.seed = 2});
  std::vector<std::int64_t> finite;
  for (int i = 0; i < 100; ++i) {
    const std::int64_t x = x_of(*iterator.next());
    if (x != 7) finite.push_back(x);
  }
  EXPECT_EQ(finite, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(mixture.cardinality(), kInfinite);
  const Dataset stopping =
      sample_from({numbers({7}).repeat(), numbers({1, 2, 3})}, {0.5, 0.5}, {.stop_on_empty = true});
  EXPECT_LT(values(stopping).size(), 100U);
}

TEST(Trap, InterruptedCacheFile) {
  const test::TempFolder folder;
  const Dataset cached = numbers(1000).cache(folder / "cache");
  for (int i = 0; i < 3; ++i) {
    Iterator iterator = cached.take(10 * i).iterate();
    while (iterator.next().has_value()) {
    }
  }
  EXPECT_EQ(values(cached), iota(1000));
  EXPECT_EQ(values(cached), iota(1000));
}

TEST(Trap, RandomStateOfTwoIterators) {
  const auto draw = [](Element element, Rng& rng) {
    element.set("x", Tensor::scalar(static_cast<std::int64_t>(rng.below(1000000))));
    return element;
  };
  const Dataset dataset =
      sample_from({numbers(20).shuffle({.buffer = 5}).map(draw),
                   numbers(20)
                       .rejection_resample([](const Element& e) { return x_of(e) % 2; }, {1, 3})
                       .map(
                           [](Element e) {
                             return Element({{"x", e["x"]}});
                           },
                           {.output = x_spec()})},
                  {1, 2});
  const std::vector<std::int64_t> alone = values(dataset, {.seed = 6});
  Iterator a = dataset.iterate({.seed = 6});
  Iterator b = dataset.iterate({.seed = 6});
  Iterator other = dataset.iterate({.seed = 7});
  for (const std::int64_t x : alone) {
    EXPECT_EQ(x_of(*a.next()), x);
    (void)other.next();
    EXPECT_EQ(x_of(*b.next()), x);
  }
}

TEST(Trap, OrderOfFiles) {
  const test::TempFolder folder;
  for (const char* name : {"b", "a10", "a2", "A", "a-1"}) folder.write(name, "x");
  const std::vector<std::string> expected{folder / "A", folder / "a-1", folder / "a10",
                                          folder / "a2", folder / "b"};
  for (const char* name : {"pread", "mmap", "io_uring"}) {
    const FileSystemPtr files = make_file_system(name);
    EXPECT_EQ(files->list(folder.path()), expected);
    EXPECT_EQ(files->glob(folder / "*"), expected);
  }
}

}  // namespace
}  // namespace penstock
