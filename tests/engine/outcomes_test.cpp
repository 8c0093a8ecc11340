// One outcome for each budget: a graph runs to its end, or fails at one element, whatever the
// threads do.
#include <gtest/gtest.h>

#include <vector>

#include <penstock/dataset.h>
#include <penstock/sources.h>

#include "tests/engine/budgets.h"
#include "tests/engine/outcomes.h"
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

TEST(Outcomes, FailAtOneElementOrNotAtAll) {
  for (const Graph& graph : graphs()) test::expect_one_outcome(graph.name, graph.dataset, 64 << 10);
}

// While it returns to its position, a run can't start again.
TEST(Outcomes, RestoredRun) {
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
