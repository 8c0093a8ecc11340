// Random graphs with random budgets: whatever the threads do, a run gives what one gives that makes
// one element at a time. That gives all, or fails for lack of memory behind a part of it.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include <penstock/plan.h>
#include <penstock/rng.h>
#include <penstock/sources.h>

#include "pipeline/core/begin_run.h"
#include "tests/conformance/random_graphs.h"
#include "tests/remote/loop_workers.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace conformance_budgets_test {

using test::x_of;
using test::graphs::lacks_memory;
using test::graphs::Outcome;
using test::graphs::outcome_of;
using test::graphs::random_graph;
using test::graphs::RandomGraph;
using test::graphs::rest_of;
using test::graphs::takes;

/// Makes each number a vector of so many bytes.
Dataset large(const Dataset& input, std::int64_t bytes) {
  const auto fill = [](const Element& in, Element& out, Rng&) {
    std::ranges::fill(out["x"].mutable_values<std::int64_t>(), x_of(in));
  };
  const Spec output({{"x", DType::i64, {bytes / std::int64_t{sizeof(std::int64_t)}}}});
  return input.map(fill, {.output = output});
}

/// True if it is the whole, or an error for lack of memory behind a part of it, which may have
/// `other` elements: one that failed counts in no shuffle's buffer, so others may come before it.
bool is_of(const Outcome& outcome, const Outcome& whole, bool other, std::size_t from = 0) {
  const std::size_t count = outcome.elements.size();
  if (other && !outcome.error.empty()) return lacks_memory(outcome.error);
  if (from + count > whole.elements.size() ||
      !std::equal(outcome.elements.begin(), outcome.elements.end(),
                  whole.elements.begin() + static_cast<std::ptrdiff_t>(from)))
    return false;
  return outcome.error.empty() ? from + count == whole.elements.size()
                               : lacks_memory(outcome.error);
}

/// True if the run gave what the one gave that made one element at a time, from one of its elements
/// on. An element that fails in a shuffle's buffer may be another one. `counts`: it counted the
/// same errors.
bool is_same(const Outcome& outcome, const Outcome& alone, bool shuffled, bool counts,
             std::size_t from = 0) {
  if (outcome.error.empty() != alone.error.empty()) return false;
  if (!shuffled && from == 0 && outcome.error != alone.error) return false;
  if (counts && outcome.errors != alone.errors) return false;
  return from <= alone.elements.size() &&
         std::ranges::equal(outcome.elements, std::span(alone.elements).subspan(from));
}

/// Returns the most bytes of a run that makes one element at a time.
std::uint64_t peak_alone(const Dataset& dataset, const RunOptions& options) {
  Iterator run = begin_run(dataset, options, {.alone = true});
  while (run.next().has_value()) {
  }
  return run.stats().memory.peak_bytes;
}

/// Restores a run from one of its first positions, in the same budget.
Outcome restored(const Dataset& dataset, std::size_t position, const RunOptions& options) {
  Iterator run = dataset.iterate(options);
  for (std::size_t i = 0; i < position; ++i)
    if (!run.next().has_value()) return {{}, "fails in its memory budget before that"};
  try {
    Iterator again = dataset.restore(run.save(), options);
    return rest_of(again);
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

class RandomGraphs {
 public:
  explicit RandomGraphs(bool with_more) : with_more_(with_more) {}
  /// Returns what is wrong with a graph, if anything.
  std::string look_at(std::uint64_t number) {
    Rng rng(19, number, 4);
    Rng more(19, number, 5);
    // What came from a worker keeps no more than its values (docs/budget.md).
    const bool with_workers = with_more_ && more.coin(0.1);
    const RandomGraph graph = random_graph(rng, with_more_ ? &more : nullptr, !with_workers);
    RunOptions options = graph.options;
    options.threads = 1;
    options.memory_bytes = 1U << 30;
    const Outcome whole = outcome_of(graph.dataset, options);
    std::string text = "graph " + std::to_string(number) + ": " + graph.text;
    if (!whole.error.empty()) return {};  // a stage refuses an element
    const auto has = [&](const char* stage) { return graph.text.find(stage) != std::string::npos; };
    const bool shuffled = has("shuffle");
    // Behind a batch that an error cut short, elements draw other random numbers.
    const bool redrawn = shuffled || (graph.options.on_error == OnError::skip && has("rebatch"));
    // Such a stage may end the run while an error is still in the shuffle's buffer.
    const bool ends_early = has("take") || has("zip") || has("choose_from") || has("sample_from");
    if (shuffled && (ends_early || has("reduced"))) return {};
    const std::uint64_t least = compile(graph.dataset, {}).least_memory();
    const double share = rng.uniform();
    options.memory_bytes = static_cast<std::uint64_t>(
        with_more_ && more.coin(0.5)
            ? static_cast<double>(peak_alone(graph.dataset, options)) * (0.3 + 0.8 * share)
            : static_cast<double>(std::max<std::uint64_t>(least, 1 << 10) + 4096) *
                  std::pow(30, share));
    options.memory_bytes = std::max(options.memory_bytes, least);
    const auto some_threads = [&] { return options.threads = 1 + static_cast<int>(rng.below(8)); };
    const Outcome alone = outcome_of(graph.dataset, options, true);
    some_threads();
    const Outcome again = outcome_of(graph.dataset, options, true);
    text += "\nin 1 GiB: " + testing::PrintToString(whole);
    text += "\none at a time: " + testing::PrintToString(alone);
    if (again != alone) return text + "\nand then: " + testing::PrintToString(again);
    text += "\nin " + std::to_string(options.memory_bytes) + " bytes";
    std::optional<test::LoopWorkers> workers;
    if (with_workers) {
      workers.emplace(graph.dataset, 1 + static_cast<int>(more.below(2)));
      options.workers = workers->options(static_cast<int>(more.below(3)));
      text += ", with workers";
    }
    for (int run = 0; run < 4; ++run) {
      text += "\n" + std::to_string(some_threads()) + " threads: ";
      const Outcome outcome = outcome_of(graph.dataset, options);
      if (!is_of(outcome, whole, redrawn) || !is_same(outcome, alone, shuffled, !ends_early))
        return text + testing::PrintToString(outcome);
    }
    ++budgets_;
    const std::size_t position = rng.below(whole.elements.size() + 1);
    some_threads();
    const Outcome rest = restored(graph.dataset, position, options);
    const bool reached = position <= alone.elements.size();
    if (is_of(rest, whole, redrawn, position) &&
        (!reached || is_same(rest, alone, shuffled, !ends_early, position)))
      return {};
    return text + "\nrestored at " + std::to_string(position) + ": " + testing::PrintToString(rest);
  }

  std::uint64_t budgets() const noexcept { return budgets_; }

 private:
  const bool with_more_;
  std::atomic<std::uint64_t> budgets_{0};
};

// tools/reliability.sh looks at 100,000.
TEST(Budgets, AreEnoughForTheRightElementsOrForAnError) {
  RandomGraphs random(true);
  const std::uint64_t graphs = test::graphs::look_at_graphs(
      1000, [&](std::uint64_t number) { return random.look_at(number); });
  EXPECT_GE(random.budgets(), graphs / 2);
}

// Once these failed where a run of one element at a time does not: because of caches, windows,
// restored runs, and groups that kept more than they needed. One ran for ever.
TEST(Budgets, AreEnoughForGraphsThatOnceFailed) {
  const test::TimeLimit limit(100);
  RandomGraphs random(false);
  for (const std::uint64_t number :
       {889, 987, 1872, 2123, 2318, 3269, 4029, 6920, 11099, 14229, 17298, 19467})
    EXPECT_EQ(random.look_at(number), "");
  RandomGraphs more(true);
  for (const std::uint64_t number : {
           508,   // the position behind the end of take_while held what was made ahead
           2277,  // a restored run held several values at once
           4227,  // a run that went back to a later pass of a cache held less
       })
    EXPECT_EQ(more.look_at(number), "");
}

// However many elements a thread pulls at once.
TEST(Budgets, OfCachesEndARunBehindTheSameElement) {
  const test::TimeLimit limit(100);
  const Dataset input =
      large(test::numbers(200), 1'000).map([](Element element) { return element; });
  for (const int threads : {1, 2, 8}) {
    const Outcome outcome = outcome_of(input.cache(), threads, 64 << 10);
    EXPECT_EQ(outcome.elements.size(), 40U);
    EXPECT_NE(outcome.error.find("the elements kept take 49856 bytes"), std::string::npos)
        << outcome.error;
  }
}

// A row that is made by itself has a buffer for its whole line, however little of that is kept.
TEST(Budgets, OfTextsWhoseRecordsTakeMore) {
  const test::TimeLimit limit(100);
  std::string table = "a,b\n";
  for (int row = 0; row < 300; ++row)
    table += std::to_string(row) + "," + std::string(190, 'x') + "\n";
  const auto files = std::make_shared<MemoryFileSystem>();
  files->add("table.csv", table);
  CsvOptions options;
  options.files = test::graphs::that_is_read(files);
  options.index_folder = "-";
  options.columns = {{.name = "a"}};
  const Dataset rows = csv({"table.csv"}, options);
  const Dataset batches = rows.batch(100);
  int enough = 0;
  int budgets = 0;
  for (std::uint64_t budget = 8 << 10; budget < (44 << 10); budget += 1 << 10) {
    const Outcome alone = outcome_of(batches, {.threads = 1, .memory_bytes = budget}, true);
    ++budgets;
    enough += alone.error.empty() ? 1 : 0;
    for (const int threads : {1, 2, 4})
      EXPECT_EQ(outcome_of(batches, threads, budget), alone) << budget << ", " << threads;
  }
  EXPECT_GT(enough, 5);
  EXPECT_LT(enough, budgets - 5);
}

// Once a shuffle lost what it had drawn when its input failed.
TEST(Budgets, OfCachesInFrontOfAShuffle) {
  const test::TimeLimit limit(100);
  const auto same = [](Element element) { return element; };
  const Dataset shuffled =
      large(test::numbers(200), 1'000).map(same).cache().shuffle({.buffer = 5, .seed = 1});
  const RunOptions options{.threads = 2, .memory_bytes = 64 << 10};
  const Outcome alone = outcome_of(shuffled, options, true);
  EXPECT_EQ(alone.elements.size(), 33U);
  for (int run = 0; run < 10; ++run) EXPECT_EQ(outcome_of(shuffled, options), alone);
}

// An element that finds no memory is none of those that are shared out. Once it was dropped with
// the elements of other shards, and others came in its place.
TEST(Budgets, TooSmallForAShard) {
  const test::TimeLimit limit(100);
  const Dataset input = takes(test::numbers(57), 106, true).unique();
  for (std::int64_t shard = 0; shard < 3; ++shard) {
    const Dataset mine = takes(input, 851, true).shard(3, shard);
    const Outcome whole = outcome_of(mine, 1, 1 << 30);
    EXPECT_EQ(whole.elements.size(), 19U);
    const Outcome small = outcome_of(mine, 2, 1 << 14);
    EXPECT_TRUE(lacks_memory(small.error)) << small;
  }
}

// What comes behind a stage that throws is unknown, so all shards end with its error.
TEST(Budgets, StagesThatEndEarly) {
  const test::TimeLimit limit(100);
  const auto nothing = [](Element element) { return element; };
  const auto all = [](const Element&) { return true; };
  const Dataset kept = large(test::numbers(200), 1'000).cache();
  for (std::int64_t shard = 0; shard < 3; ++shard) {
    const Outcome small =
        outcome_of(kept.map(nothing).filter(all).shard(3, shard), 2, std::uint64_t{64} << 10);
    EXPECT_NE(small.error.find("the elements kept take"), std::string::npos) << small;
  }
}

// The input may have failed ahead of the element that the run goes back to.
TEST(Budgets, RunThatGoesBack) {
  const test::TimeLimit limit(200);
  const Dataset shuffled =
      takes(test::numbers(26), 7, true).cache().shuffle({.buffer = 5, .seed = 1});
  const Dataset dataset = takes(shuffled, 11, false).batch(7);
  const Outcome whole = outcome_of(dataset, 1, 1 << 30);
  for (std::uint64_t budget = 8'000; budget < 24'000; budget += 1'600) {
    const Outcome small = outcome_of(dataset, 6, budget);
    EXPECT_TRUE(is_of(small, whole, true)) << budget << ": " << small;
  }
}

// A restored run fills its cache again. Once it left out what lacked memory. Then it kept nothing,
// and ended at once.
TEST(Budgets, AreForAllThatARestoredCacheKeeps) {
  const test::TimeLimit limit(100);
  const test::TempFolder folder;
  const Dataset input = takes(test::numbers(3), 265, true);  // 20,000 for 1, else less than 1,500
  const auto cached = [&](const std::string& file) {
    return (file.empty() ? input.cache() : input.cache(folder / file)).repeat(2);
  };
  for (const std::string file : {"", "kept"}) {
    Iterator run = cached(file).iterate({.memory_bytes = 1 << 30});
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(run.next().has_value());
    const std::string other = file.empty() ? "" : "other";
    try {
      Iterator again = cached(other).restore(run.save(), {.memory_bytes = 16'000});
      ADD_FAILURE() << file << ": " << testing::PrintToString(rest_of(again));
    } catch (const Error& error) {
      EXPECT_TRUE(lacks_memory(error.what())) << error.what();
    }
  }
}

// What a stage drops makes room for the next element at once.
TEST(Budgets, HoldNothingOfWhatIsDropped) {
  const test::TimeLimit limit(100);
  constexpr std::int64_t kBytes = 7'000;  // of each element; there is room for one
  const auto fourth = [](const Element& e) { return e["x"].values<std::int64_t>()[0] % 4 == 0; };
  const auto all = [](const Element&) { return true; };
  const Dataset input = large(test::numbers(40), kBytes);
  for (const Dataset& dataset :
       {input.filter(fourth), input.filter(all).shard(4, 0), input.filter(all).skip(30)}) {
    for (const int threads : {1, 4, 8}) {
      const Outcome outcome = outcome_of(dataset, threads, 10'000);
      EXPECT_EQ(outcome.error, "");
      EXPECT_EQ(outcome.elements.size(), 10U);
    }
  }
}

}  // namespace conformance_budgets_test
}  // namespace penstock
