// Elements that take much longer than others: what lies behind them is made meanwhile, and waits.
#include <atomic>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/engine/segment/ordered_values.h"
#include "pipeline/stage/counters.h"
#include "tests/support/numbers.h"
#include "tests/support/wait_until.h"

namespace penstock {
namespace uneven_test {

using test::map_one_by_one;
using test::numbers;

struct Uneven {
  const char* what;
  std::int64_t rows;  // of a batch; 0: values
  int behind;         // elements that are made while the first one is being made
};

void PrintTo(const Uneven& one, std::ostream* out) {
  *out << one.what;
}

class SlowElement : public testing::TestWithParam<Uneven> {};

TEST_P(SlowElement, HoldsUpNoThread) {
  constexpr std::int64_t kCount = 1000;
  std::atomic<int> made{0};
  std::atomic<bool> late{false};
  Dataset dataset = map_one_by_one(numbers(kCount), [&, behind = GetParam().behind](Element one) {
    if (one[0].to_vector<std::int64_t>()[0] == 0) {
      late = !test::wait_until([&] { return made >= behind; });
    } else {
      ++made;
    }
    return one;
  });
  if (GetParam().rows > 0) dataset = dataset.batch(GetParam().rows).unbatch();
  std::vector<std::int64_t> expected(kCount);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(test::values(dataset, {.threads = 2}), expected);
  EXPECT_FALSE(late) << "only " << made << " elements were made meanwhile";
}

INSTANTIATE_TEST_SUITE_P(Kinds, SlowElement,
                         testing::Values(Uneven{"values", 0, 600}, Uneven{"batches of one", 1, 60},
                                         Uneven{"batches of four", 4, 200}));

struct Window {
  const char* what;
  bool front_done;
  bool roomy;
  bool threads_idle;
  std::size_t admitted;  // groups of two elements, with a limit of three groups
};

// The consumer takes nothing; what can be admitted does not depend on how long that lasts.
TEST(OrderedValues, WaitBehindASlowGroupOnly) {
  for (const Window& one : {Window{"the front is slow", false, true, true, kBehindSlow * 3 / 2},
                            Window{"memory is half full", false, false, true, 3},
                            Window{"threads have work", false, true, false, 3},
                            Window{"the front is done", true, true, true, 3}}) {
    const RunOptions options;
    SkipLedger ledger(options);
    StageCounters counters;
    Waker waker;
    OrderedValues values({ledger, {&counters, 1, true}, false}, true, waker);
    std::vector<Group*> groups;
    const Demand demand = {
        .wanted = 2, .group_limit = 3, .threads_idle = one.threads_idle, .roomy = one.roomy};
    while (groups.size() < 1000 && values.room(demand) > 0) {
      Group& group = *groups.emplace_back(&values.groups().take());
      group.count = 2;
      group.done = groups.size() > 1 || one.front_done;
      values.admit(group);
      if (group.done) values.complete(group);
    }
    EXPECT_EQ(groups.size(), one.admitted) << one.what;
  }
}

// Otherwise another group takes memory before this one has let go of its own.
TEST(OrderedValues, RoomOfSpentGroups) {
  const RunOptions options;
  SkipLedger ledger(options);
  StageCounters counters;
  Waker waker;
  OrderedValues values({ledger, {&counters, 1, true}, false}, true, waker);
  const Demand demand = {.wanted = 2, .group_limit = 3};
  const auto fill = [&] {
    int count = 0;
    for (; values.room(demand) > 0; ++count) {
      Group& group = values.groups().take();
      group.count = 2;
      group.items.resize(2);
      group.work.resize(2);
      group.done = true;
      values.admit(group);
      values.complete(group);
    }
    return count;
  };
  EXPECT_EQ(fill(), 3);
  std::vector<ElementRef> taken(4);
  EXPECT_EQ(values.take(taken), 4U);
  EXPECT_EQ(fill(), 0);
  Group* spent = values.spent();
  int returned = 0;
  while (Group* const group = spent) {
    spent = group->next;
    group->let_go();
    values.reuse(*group);
    EXPECT_EQ(fill(), 1);
    ++returned;
  }
  EXPECT_EQ(returned, 2);
}

}  // namespace uneven_test
}  // namespace penstock
