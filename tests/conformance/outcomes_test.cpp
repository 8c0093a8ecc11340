// Every stage with little memory: its graph runs to its end, or fails at one element, whatever the
// threads do.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include <penstock/rng.h>
#include <penstock/work.h>

#include "tests/conformance/stages.h"
#include "tests/engine/outcomes.h"

namespace penstock {
namespace conformance_outcomes_test {

using test::StageCase;

/// Takes memory of a heavy-tailed size while it works, and gives its input.
class TakesMemory final : public WorkOp {
 public:
  std::string name() const override { return "takes_memory"; }
  void describe(Description&) const override {}
  Spec infer(const Spec& input) const override { return input; }
  void run(std::span<WorkItem> items, WorkContext& context) const override {
    for (WorkItem& item : items) {
      if (!item.status.ok()) continue;
      try {
        Rng rng(3, static_cast<std::uint64_t>(item.element["x"].item<std::int64_t>()), 1);
        const double bytes = std::min(500 / std::pow(1 - rng.uniform(), 0.8), 40'000.0);
        const BufferPtr scratch = context.allocate(static_cast<std::size_t>(bytes));
        std::memset(scratch->data(), 1, scratch->size());
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
  }
};

class StageOutcomes : public testing::TestWithParam<StageCase> {};

TEST_P(StageOutcomes, FailAtOneElementOrNotAtAll) {
  if (GetParam().unordered) GTEST_SKIP() << "gives its elements in any order";
  const auto takes = std::make_shared<TakesMemory>();
  const Dataset dataset = GetParam().build(test::numbers(120).map_op(takes)).map_op(takes);
  test::expect_one_outcome(GetParam().name, dataset, 12 << 10);
}

INSTANTIATE_TEST_SUITE_P(Stages, StageOutcomes, testing::ValuesIn(test::stages()),
                         [](const auto& tested) { return test::name_of_test(tested.param); });

}  // namespace conformance_outcomes_test
}  // namespace penstock
