// Random graphs with random budgets: whatever the threads do, a run gives what one gives that makes
// one element at a time. That gives all, or fails for lack of memory behind a part of it.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/plan.h>
#include <penstock/rng.h>
#include <penstock/sources.h>

#include "pipeline/core/begin_run.h"
#include "tests/conformance/stages.h"
#include "tests/conformance/takes.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace conformance_budgets_test {

using test::StageCase;
using test::x_of;

/// Returns a size of a heavy-tailed distribution. Sometimes lets other threads go first.
std::uint64_t tail(std::uint64_t seed, std::int64_t x) {
  Rng rng(seed, static_cast<std::uint64_t>(x), 1);
  if (rng.coin(0.1)) std::this_thread::yield();
  return static_cast<std::uint64_t>(std::min(500 / std::pow(1 - rng.uniform(), 0.8), 20'000.0));
}

Dataset takes(const Dataset& input, std::uint64_t seed, bool keeps) {
  return input.map_op(std::make_shared<test::Takes>(tail, seed, keeps));
}

/// Makes each number a vector of so many bytes.
Dataset large(const Dataset& input, std::int64_t bytes) {
  const auto fill = [](const Element& in, Element& out, Rng&) {
    std::ranges::fill(out["x"].mutable_values<std::int64_t>(), x_of(in));
  };
  const Spec output({{"x", DType::i64, {bytes / std::int64_t{sizeof(std::int64_t)}}}});
  return input.map(fill, {.output = output});
}

/// The stages with one order, and without files that outlive a run.
const std::vector<StageCase>& chosen_stages() {
  static const std::vector<StageCase> chosen = [] {
    std::vector<StageCase> all = test::stages();
    std::erase_if(all, [](const StageCase& stage) {
      return stage.unordered || stage.name.find("file") != std::string::npos ||
             stage.name.find("snapshot") != std::string::npos;
    });
    return all;
  }();
  return chosen;
}

struct Graph {
  Dataset dataset;
  std::string text;
  OnError on_error = OnError::fail;
};

Dataset takes_some(const Dataset& input, Rng& rng) {
  const std::uint64_t seed = rng.below(1000);
  return takes(input, seed, rng.coin(0.5));
}

/// Lines of a file, which values share buffers of, through some stages. Then their numbers.
Graph random_texts(Rng& rng) {
  static const test::TempFolder folder;
  static const std::string path = [] {
    std::string lines;
    for (std::int64_t x = 0; x < 200; ++x)
      lines += std::to_string(x) + std::string(tail(5, x) / 4, ' ') + "\n";
    return folder.write("lines", lines);
  }();
  const auto even = [](const Element& e) { return e[0].bytes_at(0).size() % 2 == 0; };
  const auto same = [](Element e) { return e; };
  const auto count = static_cast<std::int64_t>(5 + rng.below(100));
  Graph graph{text_lines({path}).take(count), std::to_string(count) + " lines"};
  const std::vector<std::pair<std::string, std::function<Dataset(const Dataset&)>>> stages{
      {"map", [&](const Dataset& d) { return d.map(same); }},
      {"filter", [&](const Dataset& d) { return d.filter(even); }},
      {"value shuffle", [&](const Dataset& d) { return d.map(same).shuffle({.buffer = 7}); }},
      {"cache", [](const Dataset& d) { return d.cache(); }},
      {"repeat", [](const Dataset& d) { return d.repeat(2); }},
      {"batches of texts", [](const Dataset& d) { return d.batch(5).unbatch(); }},
      {"windows of texts", [](const Dataset& d) { return d.window(4, {.shift = 3}).unbatch(); }},
  };
  for (std::uint64_t left = rng.below(4); left > 0; --left) {
    const auto& [name, stage] = stages[rng.below(stages.size())];
    graph.dataset = stage(graph.dataset);
    graph.text += ", " + name;
  }
  const auto number = [](const Element& in, Element& out, Rng&) {
    out["x"].mutable_values<std::int64_t>()[0] = std::atoll(std::string(in[0].bytes_at(0)).c_str());
  };
  graph.dataset = graph.dataset.map(number, {.output = test::x_spec()});
  return graph;
}

/// `more`: the source of what graphs have had only later, as tests name the others by numbers.
Graph random_graph(Rng& rng, Rng* more) {
  const auto count = static_cast<std::int64_t>(5 + rng.below(60));
  Graph graph = more != nullptr && more->coin(0.2)
                    ? random_texts(*more)
                    : Graph{test::numbers(count), std::to_string(count) + " numbers"};
  graph.dataset = takes_some(graph.dataset, rng);
  if (more != nullptr && more->coin(0.2)) {
    graph.dataset = test::failing_at(test::failing_at(graph.dataset, 3), 7);
    graph.on_error = OnError::skip;
    graph.text += " without 3 and 7";
  }
  for (std::uint64_t left = 1 + rng.below(4); left > 0; --left) {
    const StageCase& stage = chosen_stages()[rng.below(chosen_stages().size())];
    try {
      graph.dataset = stage.build(graph.dataset);
    } catch (const Error&) {
      continue;  // such as pad_batches of a number of batches that is not known
    }
    graph.text += ", " + stage.name;
    if (rng.coin(0.6)) graph.dataset = takes_some(graph.dataset, rng);
  }
  if (rng.coin(0.5)) {
    const auto rows = static_cast<std::int64_t>(1 + rng.below(16));
    graph.dataset = graph.dataset.batch(rows);
    graph.text += ", batches of " + std::to_string(rows);
  }
  return graph;
}

/// What a run gave, and the error that ended it.
struct Outcome {
  std::vector<std::string> elements;
  std::string error;

  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  for (const std::string& element : outcome.elements) out << element << " ";
  return out << outcome.error;
}

/// Runs to the end or the first error, and lets go of each element before the next.
Outcome rest_of(Iterator& run) {
  Outcome outcome;
  while (Next next = run.next()) {
    if (next.is_error()) {
      outcome.error = next.error().what();
      break;
    }
    outcome.elements.push_back(test::text_of(*next));
  }
  return outcome;
}

Outcome outcome_of(const Dataset& dataset, const RunOptions& options, bool alone = false) {
  Iterator run = begin_run(dataset, options, {.alone = alone});
  return rest_of(run);
}

Outcome outcome_of(const Dataset& dataset, int threads, std::uint64_t budget) {
  return outcome_of(dataset, {.threads = threads, .memory_bytes = budget});
}

bool lacks_memory(const std::string& error) {
  return error.find("memory budget") != std::string::npos;
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
/// on. An element that fails in a shuffle's buffer may be another one.
bool is_same(const Outcome& outcome, const Outcome& alone, bool shuffled, std::size_t from = 0) {
  if (outcome.error.empty() != alone.error.empty()) return false;
  if (!shuffled && from == 0 && outcome.error != alone.error) return false;
  return from <= alone.elements.size() &&
         std::ranges::equal(outcome.elements, std::span(alone.elements).subspan(from));
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
    const Graph graph = random_graph(rng, with_more_ ? &more : nullptr);
    RunOptions options{.threads = 1, .memory_bytes = 1U << 30, .on_error = graph.on_error};
    if (options.on_error == OnError::skip) options.max_error_share = 1;
    const Outcome whole = outcome_of(graph.dataset, options);
    std::string text = "graph " + std::to_string(number) + ": " + graph.text;
    if (!whole.error.empty()) return {};  // a stage refuses an element
    const auto has = [&](const char* stage) { return graph.text.find(stage) != std::string::npos; };
    const bool shuffled = has("shuffle");
    // Behind a batch that an error cut short, elements draw other random numbers.
    const bool redrawn = shuffled || (graph.on_error == OnError::skip && has("rebatch"));
    // Such a stage may end the run while an error is still in the shuffle's buffer.
    if (shuffled && (has("take") || has("zip") || has("choose_from") || has("reduced"))) return {};
    const std::uint64_t least =
        std::max<std::uint64_t>(compile(graph.dataset, {}).least_memory(), 1 << 10);
    options.memory_bytes =
        static_cast<std::uint64_t>(static_cast<double>(least + 4096) * std::pow(30, rng.uniform()));
    const auto some_threads = [&] { return options.threads = 1 + static_cast<int>(rng.below(8)); };
    const Outcome alone = outcome_of(graph.dataset, options, true);
    some_threads();
    const Outcome again = outcome_of(graph.dataset, options, true);
    text += "\nin 1 GiB: " + testing::PrintToString(whole);
    text += "\none at a time: " + testing::PrintToString(alone);
    if (again != alone) return text + "\nand then: " + testing::PrintToString(again);
    text += "\nin " + std::to_string(options.memory_bytes) + " bytes";
    for (int run = 0; run < 4; ++run) {
      text += "\n" + std::to_string(some_threads()) + " threads: ";
      const Outcome outcome = outcome_of(graph.dataset, options);
      if (!is_of(outcome, whole, redrawn) || !is_same(outcome, alone, shuffled))
        return text + testing::PrintToString(outcome);
    }
    ++budgets_;
    const std::size_t position = rng.below(whole.elements.size() + 1);
    some_threads();
    const Outcome rest = restored(graph.dataset, position, options);
    const bool reached = position <= alone.elements.size();
    if (is_of(rest, whole, redrawn, position) &&
        (!reached || is_same(rest, alone, shuffled, position)))
      return {};
    return text + "\nrestored at " + std::to_string(position) + ": " + testing::PrintToString(rest);
  }

  std::uint64_t budgets() const noexcept { return budgets_; }

 private:
  const bool with_more_;
  std::atomic<std::uint64_t> budgets_{0};
};

// PENSTOCK_GRAPHS: how many; tools/reliability.sh looks at 100,000. PENSTOCK_GRAPH: one of them.
TEST(Budgets, AreEnoughForTheRightElementsOrForAnError) {
  const char* const asked = std::getenv("PENSTOCK_GRAPHS");
  const std::uint64_t graphs = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 2000;
  const test::TimeLimit limit(asked != nullptr ? 36'000 : 300);
  RandomGraphs random(true);
  if (const char* const one = std::getenv("PENSTOCK_GRAPH")) {
    EXPECT_EQ(random.look_at(std::strtoull(one, nullptr, 10)), "");
    return;
  }
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  std::vector<std::string> wrong;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t number = next++; number < graphs; number = next++) {
        std::string said = random.look_at(number);
        if (said.empty()) continue;
        const std::lock_guard lock(mutex);
        wrong.push_back(std::move(said));
      }
    });
  }
  threads.clear();
  for (const std::string& each : wrong) ADD_FAILURE() << each;
  EXPECT_GT(random.budgets(), graphs / 2);
}

// Once these failed where a run of one element at a time does not: because of caches, windows,
// restored runs, and groups that kept more than they needed. One ran for ever.
TEST(Budgets, AreEnoughForGraphsThatOnceFailed) {
  const test::TimeLimit limit(100);
  RandomGraphs random(false);
  for (const std::uint64_t number :
       {889, 987, 1872, 2123, 2318, 3269, 4029, 6920, 11099, 14229, 17298, 19467})
    EXPECT_EQ(random.look_at(number), "");
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
