// What a run says of itself: what its graph guarantees, and what each epoch was.
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/sources.h>

#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/noisy.h"
#include "tests/support/numbers.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::failing_at;
using test::noisy;
using test::numbers;
using test::stream;

std::int64_t x_of(const Element& element) {
  return element["x"].item<std::int64_t>();
}

TEST(Guarantee, IsNamedWithItsPrice) {
  const auto keep = [](const Element&) { return true; };
  struct Case {
    Dataset dataset;
    std::string says;
  };
  for (const Case& test : std::vector<Case>{
           {numbers(9).shuffle().batch(2), "restored: EXACT,.*costs position"},
           {numbers(9).shuffle({.buffer = 3}), "restored: EXACT,.*costs order"},
           {stream({1, 2}).shuffle({.buffer = 3}), "restored: EXACT,.*costs work"},
           {noisy(numbers(9)).batch(2), "restored: EXACT_IF_DETERMINISTIC.*costs position"},
           {noisy(numbers(9)).filter(keep), "EXACT_IF_DETERMINISTIC.*costs position"},
           {numbers(9).cache(), "costs work"},
           {numbers(9).shuffle().shard(2, 0), "another number of shards: continues"},
           {numbers(9).shard(2, 0).shuffle(), "another number of shards: refused, shuffle follows"},
           {numbers(9).shard(2, 0, {.contiguous = true}), "refused, its shards are contiguous"},
       }) {
    EXPECT_THAT(test.dataset.explain(), testing::ContainsRegex(test.says));
  }
  EXPECT_EQ(numbers(3).guarantee(), Guarantee::exact);
  EXPECT_EQ(noisy(numbers(3)).guarantee(), Guarantee::exact_if_deterministic);
}

TEST(Audit, SaysWhatEachEpochWas) {
  const Dataset dataset = failing_at(numbers(20), 7).batch(4);
  test::LogCapture log;
  RunOptions options{.epochs = 2, .on_error = OnError::skip};
  // Stopped and restored in the middle of either epoch, the audits stay the same.
  for (const int stop : {-1, 0, 2, 5, 7, 9}) {
    Iterator iterator = dataset.iterate(options);
    std::vector<EpochStats> epochs;
    int batches = 0;
    do {
      for (;;) {
        if (batches++ == stop) {
          const auto before = iterator.stats().epochs;
          epochs.insert(epochs.end(), before.begin(), before.end());
          Iterator next = dataset.restore(iterator.save(), options);
          iterator = std::move(next);
        }
        if (iterator.next().is_end()) break;
      }
    } while (iterator.next_epoch());
    const Stats stats = iterator.stats();
    epochs.insert(epochs.end(), stats.epochs.begin(), stats.epochs.end());
    ASSERT_EQ(epochs.size(), 2U) << stop;
    for (const EpochStats& epoch : epochs) {
      EXPECT_EQ(epoch.elements, 19U) << stop;
      EXPECT_EQ(epoch.batches, 5U) << stop;
      EXPECT_EQ(epoch.skipped, 1U) << stop;
      EXPECT_EQ(epoch.expected, 20) << stop;
      EXPECT_EQ(epoch.missing, 0) << stop;
      EXPECT_EQ(epoch.repeated, 0) << stop;
    }
    EXPECT_EQ(stats.errors.count, 2U) << "stopped behind " << stop;
  }
  EXPECT_EQ(log.count("epoch 1: 19 elements in 5 batches, 1 skipped, 0 missing, 0 repeated; "
                      "EXACT_IF_DETERMINISTIC"),
            6U);
}

TEST(Audit, SaveInALogSink) {
  const test::TimeLimit limit(20);
  const Dataset dataset = numbers(3);
  Iterator iterator = dataset.iterate();
  std::string state;
  set_log_sink([&](LogLevel, std::string_view line) {
    if (line.starts_with("epoch ")) state = iterator.save();
  });
  while (iterator.next()) continue;
  set_log_sink({});
  ASSERT_FALSE(state.empty());
  EXPECT_TRUE(dataset.restore(state).next().is_end());
}

TEST(Audit, CountsWhatIsMissingWhereTheGraphTells) {
  const auto even = [](const Element& element) { return x_of(element) % 2 == 0; };
  struct Case {
    Dataset dataset;
    std::int64_t expected, missing;
  };
  for (const Case& test : std::vector<Case>{
           {numbers(20), 20, 0},
           {numbers(20).shuffle().shard(3, 0).batch(4), 7, 0},
           {numbers(20).batch(8, {.drop_remainder = true}), 16, 0},
           {numbers(20).repeat(2).batch(8).prefetch(2), 40, 0},
           {numbers(10).batch(4).pad_batches(), 10, 0},
           {failing_at(numbers(20), 7), 20, 1},           // the error surfaced
           {failing_at(numbers(20), 7).batch(4), 20, 4},  // and cost its batch up to there
           {failing_at(numbers(20), 7).ignore_errors(), -1, -1},
           {numbers(20).filter(even), -1, -1},
           {numbers(20).batch(4).unbatch(), -1, -1}}) {
    Iterator iterator = test.dataset.iterate();
    while (!iterator.next().is_end()) {
    }
    const EpochStats epoch = iterator.stats().epochs.at(0);
    EXPECT_EQ(epoch.expected, test.expected) << test.dataset.explain();
    EXPECT_EQ(epoch.missing, test.missing) << test.dataset.explain();
    EXPECT_EQ(epoch.repeated, test.expected < 0 ? -1 : 0);
  }
}

/// What `skip` skipped before a stop, and meets again when the work is redone, counts once.
TEST(Audit, ErrorsOfRedoneWork) {
  const auto pairs = [](const Dataset& input) {
    return std::vector<Dataset>{
        input.batch(4),
        input.shuffle({.buffer = 5}).batch(4),
        input.filter([](const Element&) { return true; }).batch(3),
        input.window(3),
        input.window(3, {.shift = 1}).batch(2),
        input.group_by_window([](const Element& e) { return x_of(e) % 3; }, {.size = 2}),
        input.batch(4).unbatch().batch(3),
        input.batch(4).rebatch(3),
        input.unique().batch(3),
        input.cache().repeat(2).batch(4),
        input.repeat(3).batch(4),
        input.ignore_errors().batch(4),
        input.ignore_errors().repeat(2).batch(4),
        input.repeat(2).ignore_errors().cache().repeat(2),
        input.repeat(2).filter([](const Element&) { return true; }).repeat(2).batch(7),
        input.concatenate(input.batch(2).unbatch()).repeat(2),
        input.cache().repeat(2).concatenate(input.cache()),
        input.map([](Element e) { return e; }).cache().shuffle({.buffer = 7}).repeat(3),
        input.ragged_batch(4),
        input.filter([](const Element&) { return true; }).shuffle({.buffer = 5}).batch(4),
        input.interleave(
            [](const Element& e) {
              return numbers({x_of(e), x_of(e)});
            },
            test::x_spec(), {.cycle = 3}),
        // Datasets of which some are closed already, and their repetitions.
        input.interleave(
            [](const Element& e) {
              return failing_at(numbers({x_of(e), 4, x_of(e)}), 4).repeat(2).map([](Element in) {
                return in;
              });
            },
            test::x_spec(), {.cycle = 2}),
        input
            .interleave(
                [input](const Element& e) {
                  return x_of(e) % 3 == 0 ? input.cache().repeat(2).take(9) : numbers({x_of(e)});
                },
                test::x_spec(), {.cycle = 2})
            .repeat(2)
            .batch(5),
        // The redone work continues on threads of several edges.
        input.filter([](const Element&) { return true; })
            .map([](Element e) { return e; })
            .interleave(
                [](const Element& e) {
                  return numbers({x_of(e), x_of(e)});
                },
                test::x_spec(), {.cycle = 3}),
        input.batch(3).flat_map(
            [](const Element& e) {
              return numbers(std::vector<std::int64_t>(5, e[0].values<std::int64_t>()[0]));
            },
            test::x_spec()),
    };
  };
  const Dataset bad = failing_at(failing_at(failing_at(numbers(30), 4), 11), 22);
  const Dataset late = failing_at(failing_at(stream(test::values(numbers(30))), 4), 22);
  for (const Dataset& input : {bad, late}) {
    for (const Dataset& dataset : pairs(input)) {
      for (const OnError on_error : {OnError::skip, OnError::fail}) {
        const RunOptions options{.seed = 2, .epochs = 2, .threads = 2, .on_error = on_error};
        constexpr int kBetweenEpochs = -2;
        const auto run = [&](int stop) {
          Iterator iterator = dataset.iterate(options);
          int count = 0;
          bool restored = false;
          const auto restore = [&] {
            Iterator next = dataset.restore(iterator.save(), options);
            iterator = std::move(next);
          };
          do {
            for (;;) {
              if (count++ == stop) restore();
              if (iterator.next().is_end()) break;
            }
            if (stop == kBetweenEpochs && !std::exchange(restored, true)) restore();
          } while (iterator.next_epoch());
          const Stats stats = iterator.stats();
          std::vector<std::uint64_t> counts{stats.errors.count, stats.elements};
          counts.push_back(stats.epochs.back().skipped);
          return counts;
        };
        const auto whole = run(-1);
        // A cache that fills again returns its errors again, unless they are skipped.
        if (on_error == OnError::skip) {
          EXPECT_EQ(run(kBetweenEpochs), whole) << dataset.explain();
        }
        for (int stop = 0; stop < 24; stop += on_error == OnError::skip ? 1 : 3) {
          EXPECT_EQ(run(stop), whole) << dataset.explain() << "stopped behind " << stop;
        }
      }
    }
  }
}

/// The file is complete in the later pass, and was not in the earlier one.
TEST(Audit, ErrorsInFrontOfACompleteFile) {
  const Dataset input = failing_at(failing_at(numbers(30), 4), 11);
  const RunOptions options{.epochs = 2, .on_error = OnError::skip};
  for (int stop = 0; stop < 40; ++stop) {
    const test::TempFolder folder;
    const Dataset dataset = input.cache(folder / "file").repeat(2).batch(4);
    std::optional<Iterator> run = dataset.iterate(options);
    for (int i = 0; i < stop; ++i)
      if (run->next().is_end()) run->next_epoch();
    const std::string state = run->save();
    run.reset();
    Iterator restored = dataset.restore(state, options);
    do {
      while (restored.next()) continue;
    } while (restored.next_epoch());
    EXPECT_EQ(restored.stats().errors.count, 2U) << stop;
  }
}

}  // namespace
}  // namespace penstock
