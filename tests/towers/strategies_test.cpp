#include <penstock/towers/strategy.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/rng.h>

#include "staging/clock.h"
#include "tests/support/errors.h"
#include "tests/towers/arrays.h"
#include "towers/strategies/sync_replicas.h"
#include "towers/train/collective.h"
#include "towers/tree_sum.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using test::host_store;
using test::list;

/// Towers with variables a [2] and b [1], all 1.
VariableStore small_store(int towers) {
  VariableStore store = host_store(towers);
  for (int t = 0; t < towers; ++t) {
    store.tower(t).get("a", {2}, {Initializer::constant(1)});
    store.tower(t).get("b", {1}, {Initializer::constant(1)});
  }
  store.pack();
  return store;
}

void on_all(int towers, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < towers; ++t) threads.emplace_back(body, t);
}

void set_gradient(Variable& variable, float value) {
  variable.gradient.fill(value);
  variable.has_gradient = true;
}

StrategyOptions options_of(StrategyKind kind, Combine combine = Combine::average) {
  StrategyOptions options;
  options.kind = kind;
  options.combine = combine;
  options.update = {make_optimizer("momentum:0.9"), Schedule::constant(0.5)};
  options.timeout_s = 20;
  return options;
}

/// Neighbours first, then their sums: the rule for sums, written down a second time.
template <typename T>
T added_in_pairs(std::vector<T> level) {
  while (level.size() > 1) {
    std::vector<T> next;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(level[i] + level[i + 1]);
    if (level.size() % 2 != 0) next.push_back(level.back());
    level = next;
  }
  return level.front();
}

TEST(TreeSum, PartialSums) {
  constexpr std::size_t kValues = 33;
  for (std::size_t count = 1; count <= 17; ++count) {
    std::vector<std::vector<float>> values(count);
    Rng rng(count, 0, 0);
    for (auto& part : values)
      for (std::size_t i = 0; i < kValues; ++i)
        part.push_back(static_cast<float>(rng.uniform() - 0.5) * (i % 5 == 0 ? 1e6F : 1.0F));
    const auto sum = [&](std::vector<std::vector<float>> parts, std::size_t first,
                         std::size_t last) {
      std::vector<float*> pointers;
      for (std::size_t p = first; p < last; ++p) pointers.push_back(parts[p].data());
      sum_by_tree<float>(pointers, 0, kValues);
      return parts[first];
    };
    std::vector<float> expected;
    for (std::size_t i = 0; i < kValues; ++i) {
      std::vector<float> level;
      for (const auto& part : values) level.push_back(part[i]);
      expected.push_back(added_in_pairs(level));
    }
    EXPECT_EQ(sum(values, 0, count), expected) << count;
    for (std::size_t held = 2; held < count; held *= 2) {
      std::vector<std::vector<float>> sums;
      for (std::size_t first = 0; first < count; first += held)
        sums.push_back(sum(values, first, std::min(first + held, count)));
      EXPECT_EQ(sum(sums, 0, sums.size()), expected) << count << ", " << held << " in one place";
    }
  }
}

TEST(Collective, AddsUpTheSameBitsOnAllRanksAndNamesWhoIsMissing) {
  for (const int ranks : {1, 2, 3, 5}) {
    const std::unique_ptr<Collective> group = make_host_collective(ranks);
    std::vector<std::vector<double>> values(static_cast<std::size_t>(ranks));
    on_all(ranks, [&](int rank) {
      auto& mine = values[static_cast<std::size_t>(rank)];
      for (int i = 0; i < 107; ++i) mine.push_back(0.1 * (rank + i));
      group->sum(rank, std::span<double>(mine));
    });
    std::vector<double> level;
    for (int r = 0; r < ranks; ++r) level.push_back(0.1 * (r + 50));
    EXPECT_EQ(values[0][50], added_in_pairs(level));
    for (const auto& other : values) EXPECT_EQ(other, values[0]);
  }
  const std::unique_ptr<Collective> group = make_host_collective(3, 0.05);
  on_all(2, [&](int rank) {
    expect_error(ErrorCode::no_progress, "tower 1 has not come",
                 [&] { group->barrier(rank == 0 ? 0 : 2); });
  });
}

TEST(Collective, ErrorOfOneRank) {
  const std::unique_ptr<Collective> group = make_host_collective(2);
  on_all(2, [&](int rank) {
    if (rank == 0) {
      expect_error(ErrorCode::device_lost, "gone", [&] { group->barrier(0); });
    } else {
      group->fail(Error(ErrorCode::device_lost, "gone"));
    }
  });
  expect_error(ErrorCode::device_lost, "gone", [&] { group->barrier(1); });
}

TEST(Strategies, SumAndAverage) {
  const auto run = [](Combine combine, double rate) {
    VariableStore store = small_store(4);
    StrategyOptions options = options_of(StrategyKind::replicated, combine);
    options.update = {make_optimizer("sgd"), Schedule::constant(rate)};
    const StrategyPtr strategy = make_strategy(store, options);
    on_all(4, [&](int t) {
      for (int step = 0; step < 3; ++step) {
        set_gradient(*store.of(t)[0], static_cast<float>(t));
        strategy->update(t, 8);
      }
    });
    return list(store.of(0)[0]->value);
  };
  EXPECT_THAT(run(Combine::sum, 0.1 / 4),
              testing::Pointwise(testing::FloatNear(1e-6F), run(Combine::average, 0.1)));
}

TEST(Async, CountsHowOldGradientsAre) {
  VariableStore store = small_store(2);
  StrategyOptions options = options_of(StrategyKind::async);
  options.max_staleness = 2;
  options.update.optimizer = make_optimizer("sgd");
  const StrategyPtr strategy = make_strategy(store, options);
  const auto push = [&](int t) {
    set_gradient(*store.of(t)[0], 1);
    strategy->update(t, 1);
  };
  push(0);  // fresh
  push(1);  // one update has been made since tower 1 looked
  push(1);  // fresh
  push(1);
  push(0);  // 3 old: dropped
  push(0);  // it has looked again
  const StrategyStats stats = strategy->stats();
  EXPECT_EQ(stats.applied, 5U);
  EXPECT_EQ(stats.dropped, 1U);
  EXPECT_EQ(stats.staleness, (std::vector<std::uint64_t>{4, 1}));
  EXPECT_EQ(strategy->step(), 5U);
  strategy->settle();
  EXPECT_FLOAT_EQ(store.of(1)[0]->value.data()[0], 1 - 5 * 0.5F);
  EXPECT_EQ(list(store.of(0)[0]->value), list(store.of(1)[0]->value));
}

TEST(SyncReplicas, AveragesTheFirstAndDropsTheStale) {
  VariableStore store = small_store(3);
  StrategyOptions options = options_of(StrategyKind::sync_replicas);
  options.aggregate = 2;
  options.update.optimizer = make_optimizer("sgd");
  const StrategyPtr strategy = make_strategy(store, options);
  for (int t = 0; t < 3; ++t) set_gradient(*store.of(t)[0], static_cast<float>(t));
  on_all(2, [&](int t) { strategy->update(t, 1); });
  EXPECT_EQ(strategy->step(), 1U);
  EXPECT_FLOAT_EQ(store.of(0)[0]->value.data()[0], 1 - 0.5F * 0.5F);
  strategy->update(2, 1);  // for step 0, which is over
  EXPECT_EQ(strategy->stats().dropped, 1U);
  EXPECT_EQ(list(store.of(2)[0]->value), list(store.of(0)[0]->value));
}

TEST(SyncReplicas, WithAllReplicasHasTheBitsOfReplicated) {
  constexpr int kTowers = 5;
  constexpr int kSteps = 40;
  const auto run = [](StrategyKind kind, Combine combine, std::uint64_t order) {
    VariableStore store = small_store(kTowers);
    const StrategyPtr strategy = make_strategy(store, options_of(kind, combine));
    on_all(kTowers, [&](int t) {
      Rng who(order, static_cast<std::uint64_t>(t), 0);
      for (int step = 0; step < kSteps; ++step) {
        Rng rng(7, static_cast<std::uint64_t>(t), static_cast<std::uint32_t>(step));
        // One tower has no gradient of one variable, another none at all.
        for (std::size_t v = 0; v < 2; ++v) {
          if (v == 1 && (t + step) % kTowers == 0) {
            store.of(t)[v]->has_gradient = false;
          } else {
            set_gradient(*store.of(t)[v], static_cast<float>(rng.uniform()) - 0.5F);
          }
        }
        std::this_thread::sleep_for(std::chrono::microseconds(who.below(200)));
        strategy->update(t, step % 9 == t ? 0 : 3 + t);
      }
    });
    EXPECT_EQ(strategy->step(), static_cast<std::uint64_t>(kSteps));
    strategy->settle();
    std::vector<std::vector<float>> values;
    for (int t = 0; t < kTowers; ++t)
      for (const Variable* variable : store.of(t)) values.push_back(list(variable->value));
    return values;
  };
  for (const Combine combine : {Combine::average, Combine::sum}) {
    const auto expected = run(StrategyKind::replicated, combine, 0);
    for (std::uint64_t order = 1; order <= 5; ++order)
      EXPECT_EQ(run(StrategyKind::sync_replicas, combine, order), expected) << order;
  }
}

TEST(SyncReplicas, TokensOfADepartedTower) {
  VariableStore store = small_store(2);
  const StrategyPtr strategy = make_strategy(store, options_of(StrategyKind::sync_replicas));
  on_all(2, [&](int t) {
    if (t == 1) return strategy->leave(1);
    for (int step = 0; step < 5; ++step) {
      set_gradient(*store.of(0)[0], 1);
      strategy->update(0, 1);
    }
  });
  EXPECT_EQ(strategy->step(), 2U);
  strategy->settle();
  EXPECT_EQ(strategy->stats().applied, 4U);
  EXPECT_EQ(strategy->stats().dropped, 1U) << "half an update is none";
  EXPECT_EQ(list(store.of(0)[0]->value), list(store.of(1)[0]->value));
}

/// SEMANTICS of SyncReplicasOptimizer written down a second time, without queues: a discrete-event
/// model of replicas that take `durations` for a step.
struct Counts {
  std::uint64_t applied = 0, dropped = 0, updates = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
};

Counts model_of(int aggregate, const std::vector<std::int64_t>& durations, std::int64_t until) {
  const int total = static_cast<int>(durations.size());
  constexpr std::int64_t kNever = INT64_MAX;
  std::vector<std::int64_t> ready = durations;  // when each replica's step ends; kNever: it waits
  std::vector<std::uint64_t> local(durations.size(), 0);
  std::vector<std::size_t> waiting;
  std::map<std::uint64_t, int> tokens;  // by step; taken from the oldest
  if (aggregate > total) tokens[0] = aggregate - total;
  Counts counts;
  int fresh = 0;
  for (;;) {
    const auto next = static_cast<std::size_t>(std::ranges::min_element(ready) - ready.begin());
    const std::int64_t now = ready[next];
    if (now > until) return counts;
    if (local[next] < counts.updates) {
      ++counts.dropped;
    } else {
      ++counts.applied;
      if (++fresh == aggregate) {
        fresh = 0;
        ++counts.updates;
        tokens[counts.updates] += std::max(total, aggregate);
      }
    }
    ready[next] = kNever;
    waiting.push_back(next);
    while (!waiting.empty() && !tokens.empty()) {
      const std::size_t replica = waiting.front();
      waiting.erase(waiting.begin());
      local[replica] = tokens.begin()->first;
      if (--tokens.begin()->second == 0) tokens.erase(tokens.begin());
      ready[replica] = now + durations[replica];
    }
  }
}

/// The same with the strategy itself, whose towers compute on simulated time.
Counts strategy_of(int aggregate, const std::vector<std::int64_t>& durations, std::int64_t until) {
  const int towers = static_cast<int>(durations.size());
  VariableStore store = small_store(towers);
  StrategyOptions options = options_of(StrategyKind::sync_replicas);
  options.aggregate = aggregate;
  SyncReplicas strategy(store, options);
  VirtualClock clock;
  Mutex mutex;
  Signal pushed;
  std::deque<int> waiting;  // who came first goes first
  const auto compute = [&](int tower) {
    for (;;) {
      clock.sleep_until(clock.now() + durations[static_cast<std::size_t>(tower)]);
      if (clock.now() > until) return;
      set_gradient(*store.of(tower)[0], 1);
      strategy.push(tower, 1);
      MutexLock lock(mutex);
      waiting.push_back(tower);
      clock.notify(pushed);
      while (waiting.front() != tower || !strategy.take(tower))
        if (!wait_on(clock, mutex, pushed, until + 1)) return;
      waiting.pop_front();
      clock.notify(pushed);
    }
  };
  {
    std::vector<Actor> actors;
    for (int t = 0; t < towers; ++t)
      actors.push_back(clock.start({0, t + 1}, [&, t] { compute(t); }));
  }
  const StrategyStats stats = strategy.stats();
  return {stats.applied, stats.dropped, strategy.step()};
}

TEST(SyncReplicas, CountsOfADiscreteEventModel) {
  struct Setting {
    int aggregate;
    std::vector<std::int64_t> durations;
  };
  // Prime durations, so that no two steps end at the same time for long.
  const std::vector<Setting> settings{{3, {101, 103, 107, 331}}, {3, {101, 103, 107, 109}},
                                      {4, {101, 103, 107, 331}}, {1, {101, 331}},
                                      {4, {101, 331}},           {2, {101, 103, 1009}},
                                      {5, {101, 103, 107}}};
  for (const Setting& setting : settings) {
    const Counts model = model_of(setting.aggregate, setting.durations, 100'000);
    EXPECT_EQ(strategy_of(setting.aggregate, setting.durations, 100'000), model)
        << setting.aggregate;
    EXPECT_EQ(model.applied / static_cast<std::uint64_t>(setting.aggregate), model.updates);
  }
  // With a backup, the slow one's work is lost and the others' pace kept.
  const Counts backed = model_of(3, {101, 103, 107, 331}, 100'000);
  EXPECT_GT(backed.dropped, 0U);
  EXPECT_GT(backed.updates, 2 * model_of(4, {101, 103, 107, 331}, 100'000).updates);
  // No replica alone makes updates for ever where both are asked for.
  EXPECT_EQ(strategy_of(2, {101, 1'000'000}, 100'000).updates, 0U);
}

TEST(Strategies, NamesOfAllKinds) {
  for (const char* name :
       {"replicated", "parameter_device", "spread", "async", "sync_replicas", "model_parallel"})
    EXPECT_EQ(name_of(parse_strategy(name)), name);
  expect_error(ErrorCode::invalid_argument, "no strategy horovod; there are: replicated",
               [] { parse_strategy("horovod"); });
}

}  // namespace
}  // namespace penstock::towers
