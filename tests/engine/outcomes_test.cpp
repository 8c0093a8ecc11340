// One outcome for each budget: a graph runs to its end, or fails at one element, whatever the
// threads do. PENSTOCK_OUTCOMES: how many runs each budget gets, in 12 budgets; else a few of each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include <penstock/dataset.h>
#include <penstock/plan.h>
#include <penstock/sources.h>

#include "tests/engine/budgets.h"
#include "tests/support/numbers.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace outcomes_test {

using test::DoubleOp;
using test::numbers;
using test::ParetoSource;

struct Graph {
  const char* name;
  Dataset dataset;
};

Dataset texts(ParetoSource::Options options) {
  return Dataset(SourcePtr(std::make_shared<ParetoSource>(options)));
}

/// Heavy-tailed texts.
Dataset tails(bool blocking, bool tells) {
  return texts({.count = 120, .most = 30'000, .blocking = blocking, .tells_bytes = tells});
}

Dataset doubled(const Dataset& dataset) {
  return dataset.map_op(std::make_shared<DoubleOp>());
}

/// Numbers as texts of 9 bytes, as CSV columns of text have them.
Dataset small_texts() {
  return texts({.count = 400, .least = 9, .most = 9});
}

bool all(const Element&) {
  return true;
}

std::vector<Graph> graphs() {
  const Dataset tells = tails(false, true);
  const Dataset silent = tails(false, false);
  const Dataset blocking = tails(true, false);
  const auto nested = [](const Element& element) {
    const auto x = static_cast<std::uint64_t>(element["x"].item<std::int64_t>());
    return texts({.count = 10 + x % 5, .most = 20'000, .tells_bytes = false});
  };
  return {
      {"small texts, batch", small_texts().batch(100)},
      {"small texts, map, batch", doubled(small_texts()).batch(100)},
      {"texts", tells},
      {"texts, map", doubled(silent)},
      {"texts, batch", silent.batch(4)},
      {"texts, map, batch", doubled(blocking).batch(4)},
      {"texts, filter, batch", doubled(silent).filter(all).batch(4)},
      {"texts, two filters, batch", doubled(doubled(silent).filter(all)).filter(all).batch(4)},
      {"texts, batch, map",
       blocking.batch(4).unbatch().map_op(std::make_shared<DoubleOp>()).batch(3)},
      {"zip", zip({doubled(tells), doubled(silent).map(
                                       [](const Element& element) {
                                         Element other;
                                         other.set("other", element["data"]);
                                         return other;
                                       },
                                       {.output = Spec({{"other", DType::bytes, Shape()}})})})
                  .batch(3)},
      {"shuffled values", doubled(silent).filter(all).shuffle({.buffer = 8}).batch(4)},
      {"interleave",
       numbers(8).interleave(nested, test::data_spec(), {.cycle = 3, .block = 2}).batch(4)},
  };
}

/// What a run came to: a digest of all it gave, and the error that ended it, if any.
std::string outcome_of(const Dataset& dataset, const RunOptions& options) {
  std::uint64_t digest = 0;
  std::size_t count = 0;
  Iterator run = dataset.iterate(options);
  while (Next next = run.next()) {  // each is released before the next
    if (next.is_error()) return std::to_string(count) + ", then " + next.error().what();
    for (std::size_t i = 0; i < next.value().size(); ++i) {
      const Tensor& data = next.value()[i];
      for (std::int64_t k = 0; k < data.volume(); ++k) {
        for (const char c : data.bytes_at(k)) digest = digest * 31 + static_cast<unsigned char>(c);
      }
    }
    ++count;
  }
  return std::to_string(count) + " of digest " + std::to_string(digest);
}

TEST(Outcomes, FailAtOneElementOrNotAtAll) {
  const char* const asked = std::getenv("PENSTOCK_OUTCOMES");
  const int runs = asked != nullptr ? std::atoi(asked) : 3;
  const std::vector<double> factors =
      asked != nullptr ? std::vector<double>{1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8, 16, 64}
                       : std::vector<double>{1, 2, 8};
  for (const Graph& graph : graphs()) {
    const std::string roomy = outcome_of(graph.dataset, {.memory_bytes = 1U << 30});
    EXPECT_EQ(roomy.find("then"), std::string::npos) << roomy;
    const std::uint64_t least =
        std::max<std::uint64_t>(compile(graph.dataset, {}).least_memory(), 64U << 10);
    for (const double factor : factors) {
      const auto budget = static_cast<std::uint64_t>(static_cast<double>(least) * factor);
      std::map<std::string, int> failures;
      for (int run = 0; run < runs; ++run) {
        const test::TimeLimit limit(100);
        const int threads = std::array{1, 2, 8}[static_cast<std::size_t>(run) % 3];
        const std::string outcome =
            outcome_of(graph.dataset, {.threads = threads, .memory_bytes = budget});
        if (outcome != roomy) ++failures[outcome];
      }
      std::string list = std::string(graph.name) + ", " + std::to_string(budget) + " bytes:";
      for (const auto& [outcome, times] : failures) {
        list += "\n  " + std::to_string(times) + " x " + outcome;
        EXPECT_NE(outcome.find("then needs"), std::string::npos) << list;
      }
      EXPECT_LE(failures.size(), 1U) << list;
      if (factor >= 8) {
        EXPECT_TRUE(failures.empty()) << list;
      }
    }
  }
}

// While it returns to its position, a run can't start again.
TEST(Outcomes, ARestoredRunEnds) {
  for (const Graph& graph : graphs()) {
    SCOPED_TRACE(graph.name);
    Iterator roomy = graph.dataset.iterate({.memory_bytes = 1U << 30});
    for (int i = 0; i < 20 && roomy.next(); ++i) continue;
    const std::string state = roomy.save();
    for (const std::uint64_t budget : {64U << 10, 96U << 10}) {
      const test::TimeLimit limit(100);
      try {
        Iterator run = graph.dataset.restore(state, {.threads = 8, .memory_bytes = budget});
        while (const Next next = run.next()) {
          if (!next.is_error()) continue;
          EXPECT_EQ(next.error().code(), ErrorCode::resource_exhausted);
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
      }
    }
  }
}

}  // namespace outcomes_test
}  // namespace penstock
