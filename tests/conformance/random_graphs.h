// Random graphs of the suite's stages over random inputs, and the outcomes of their runs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <penstock/rng.h>

#include "pipeline/core/begin_run.h"
#include "tests/conformance/random_inputs.h"
#include "tests/conformance/stages.h"
#include "tests/conformance/takes.h"
#include "tests/support/time_limit.h"

namespace penstock::test::graphs {

/// Returns a size of a heavy-tailed distribution. Sometimes lets other threads go first.
inline std::uint64_t tail(std::uint64_t seed, std::int64_t x) {
  Rng rng(seed, static_cast<std::uint64_t>(x), 1);
  if (rng.coin(0.1)) std::this_thread::yield();
  return static_cast<std::uint64_t>(std::min(500 / std::pow(1 - rng.uniform(), 0.8), 20'000.0));
}

inline Dataset takes(const Dataset& input, std::uint64_t seed, bool keeps) {
  return input.map_op(std::make_shared<Takes>(tail, seed, keeps));
}

/// The stages with one order, and without files that outlive a run.
inline const std::vector<StageCase>& chosen_stages() {
  static const std::vector<StageCase> chosen = [] {
    std::vector<StageCase> all = stages();
    std::erase_if(all, [](const StageCase& stage) {
      return stage.unordered || stage.name.find("file") != std::string::npos ||
             stage.name.find("snapshot") != std::string::npos;
    });
    return all;
  }();
  return chosen;
}

inline Dataset takes_some(const Dataset& input, Rng& rng, bool may_keep) {
  const std::uint64_t seed = rng.below(1000);
  const bool keeps = rng.coin(0.5);
  return takes(input, seed, keeps && may_keep);
}

/// `more`: the source of what graphs have had only later, as tests name the others by numbers.
/// `may_keep`: elements may keep memory that their values do not need.
inline RandomGraph random_graph(Rng& rng, Rng* more, bool may_keep = true) {
  const auto count = static_cast<std::int64_t>(5 + rng.below(60));
  RandomGraph graph = more != nullptr && more->coin(0.4)
                          ? random_input(*more)
                          : RandomGraph{numbers(count), std::to_string(count) + " numbers"};
  graph.dataset = takes_some(graph.dataset, rng, may_keep);
  if (more != nullptr && more->coin(0.2)) {
    graph.dataset = failing_at(failing_at(graph.dataset, 3), 7);
    graph.skip_errors();
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
    if (rng.coin(0.6)) graph.dataset = takes_some(graph.dataset, rng, may_keep);
  }
  if (rng.coin(0.5)) {
    const auto rows = static_cast<std::int64_t>(1 + rng.below(16));
    graph.dataset = graph.dataset.batch(rows);
    graph.text += ", batches of " + std::to_string(rows);
  }
  return graph;
}

/// The elements that a run gave, the error that ended it, and how many others it counted if none
/// did.
struct Outcome {
  std::vector<std::string> elements;
  std::string error;
  std::uint64_t errors = 0;

  bool operator==(const Outcome&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  for (const std::string& element : outcome.elements) out << element << " ";
  return out << outcome.error << " (" << outcome.errors << " errors)";
}

/// Runs to the end or the first error, and lets go of each element before the next.
inline Outcome rest_of(Iterator& run) {
  Outcome outcome;
  while (Next next = run.next()) {
    if (next.is_error()) {
      outcome.error = next.error().what();
      break;
    }
    outcome.elements.push_back(text_of(*next));
  }
  if (outcome.error.empty()) outcome.errors = run.stats().errors.count;
  return outcome;
}

inline Outcome outcome_of(const Dataset& dataset, const RunOptions& options, bool alone = false) {
  Iterator run = begin_run(dataset, options, {.alone = alone});
  return rest_of(run);
}

inline Outcome outcome_of(const Dataset& dataset, int threads, std::uint64_t budget) {
  return outcome_of(dataset, {.threads = threads, .memory_bytes = budget});
}

inline bool lacks_memory(const std::string& error) {
  return error.find("memory budget") != std::string::npos;
}

/// Looks at `few` graphs with several threads, or at as many as PENSTOCK_GRAPHS says, or at the one
/// that PENSTOCK_GRAPH names. `look_at` returns what is wrong with a graph. Returns how many, 0 for
/// one.
template <typename LookAt>
std::uint64_t look_at_graphs(std::uint64_t few, const LookAt& look_at) {
  const char* const asked = std::getenv("PENSTOCK_GRAPHS");
  const std::uint64_t graphs = asked != nullptr ? std::strtoull(asked, nullptr, 10) : few;
  const TimeLimit limit(asked != nullptr ? 36'000 : 300);
  if (const char* const one = std::getenv("PENSTOCK_GRAPH")) {
    EXPECT_EQ(look_at(std::strtoull(one, nullptr, 10)), "");
    return 0;
  }
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  std::vector<std::string> wrong;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t number = next++; number < graphs; number = next++) {
        std::string said = look_at(number);
        if (said.empty()) continue;
        const std::lock_guard lock(mutex);
        wrong.push_back(std::move(said));
      }
    });
  }
  threads.clear();
  for (const std::string& each : wrong) ADD_FAILURE() << each;
  return graphs;
}

}  // namespace penstock::test::graphs
