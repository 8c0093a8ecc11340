// One suite over every way to make one model of towers' gradients: the same values on every tower,
// counted updates, errors that end all waiting, towers that leave, and continuing where it was.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <penstock/towers/strategy.h>

#include "tests/support/errors.h"
#include "tests/towers/arrays.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using penstock::test::thrown_by;
using test::host_store;

struct StrategyCase {
  std::string name;
  StrategyKind kind;
  std::size_t bucket_bytes = std::size_t{4} << 20;
  /// Towers that it is for.
  std::vector<int> towers{1, 2, 3};
  /// False: a tower's gradient makes an update without those of others.
  bool waits = true;
};

/// Add a strategy here and the whole suite runs over it.
std::vector<StrategyCase> strategies() {
  return {
      {.name = "replicated", .kind = StrategyKind::replicated},
      {.name = "replicated_in_pieces", .kind = StrategyKind::replicated, .bucket_bytes = 0},
      {.name = "parameter_device", .kind = StrategyKind::parameter_device},
      {.name = "spread", .kind = StrategyKind::spread},
      {.name = "async", .kind = StrategyKind::async, .waits = false},
      {.name = "sync_replicas", .kind = StrategyKind::sync_replicas},
      {.name = "model_parallel", .kind = StrategyKind::model_parallel, .towers = {1}},
  };
}

/// Variables a [2], b [1] and c [3], all 1.
VariableStore store_for(int towers) {
  VariableStore store = host_store(towers);
  for (int t = 0; t < towers; ++t) {
    for (const auto& [name, size] : {std::pair{"a", 2}, {"b", 1}, {"c", 3}})
      store.tower(t).get(name, {size}, {Initializer::constant(1)});
  }
  store.pack();
  return store;
}

class Strategies : public testing::TestWithParam<StrategyCase> {
 protected:
  static StrategyOptions options(Combine combine = Combine::average) {
    StrategyOptions options;
    options.kind = GetParam().kind;
    options.bucket_bytes = GetParam().bucket_bytes;
    options.combine = combine;
    options.update = {make_optimizer("sgd"), Schedule::constant(0.5)};
    options.timeout_s = 60;
    return options;
  }

  /// Runs `body` on a thread of each tower; what each threw.
  static std::vector<std::optional<Error>> on_all(int towers,
                                                  const std::function<void(int)>& body) {
    std::vector<std::optional<Error>> errors(static_cast<std::size_t>(towers));
    std::vector<std::jthread> threads;
    for (int t = 0; t < towers; ++t) {
      threads.emplace_back(
          [&, t] { errors[static_cast<std::size_t>(t)] = thrown_by([&] { body(t); }); });
    }
    threads.clear();
    return errors;
  }

  /// One step of a tower: a gradient for a, for b in odd steps, for c never.
  static void step(VariableStore& store, Strategy& strategy, int tower, int number) {
    for (Variable* variable : store.of(tower)) variable->begin_step();
    strategy.begin(tower, 2 + tower);
    for (const std::size_t v : {1U, 0U}) {
      if (v == 1 && number % 2 == 0) continue;
      Variable& variable = *store.of(tower)[v];
      variable.accumulate();
      variable.gradient.fill(0.25F * static_cast<float>(tower + 1));
      variable.added();
    }
    strategy.update(tower, 2 + tower);
  }

  /// So many steps; who makes no more of them leaves.
  static void steps(VariableStore& store, Strategy& strategy, int tower, int count) {
    for (int number = 0; number < count; ++number) step(store, strategy, tower, number);
    strategy.leave(tower);
  }

  static std::vector<float> values(VariableStore& store, int tower) {
    return {store.values(tower).begin(), store.values(tower).end()};
  }
  static void expect_alike(VariableStore& store) {
    for (int t = 1; t < store.towers(); ++t) EXPECT_EQ(values(store, t), values(store, 0)) << t;
  }
};

TEST_P(Strategies, CombineByRowsOrAddUp) {
  for (const int towers : GetParam().towers) {
    for (const Combine combine : {Combine::average, Combine::sum}) {
      // Towers that do not wait for each other have an update each.
      const bool alone = !GetParam().waits;
      VariableStore store = store_for(towers);
      const StrategyPtr strategy = make_strategy(store, options(combine));
      for (const auto& error : on_all(towers, [&](int t) { steps(store, *strategy, t, 1); }))
        EXPECT_FALSE(error) << error->what();
      strategy->settle();
      float gradient = 0;
      float rows = 0;
      for (int t = 0; t < towers; ++t) rows += static_cast<float>(2 + t);
      for (int t = 0; t < towers; ++t) {
        const float weight =
            combine == Combine::sum || alone ? 1 : static_cast<float>(2 + t) / rows;
        gradient += weight * 0.25F * static_cast<float>(t + 1);
      }
      for (int t = 0; t < towers; ++t) {
        EXPECT_FLOAT_EQ(store.of(t)[0]->value.data()[1], 1 - 0.5F * gradient) << towers;
        EXPECT_EQ(store.of(t)[1]->value.data()[0], 1) << "it had no gradient";
        EXPECT_EQ(store.of(t)[2]->value.data()[2], 1);
      }
      EXPECT_EQ(strategy->step(), alone ? static_cast<std::uint64_t>(towers) : 1U);
    }
  }
}

TEST_P(Strategies, GiveEveryTowerTheSameValues) {
  for (const int towers : GetParam().towers) {
    VariableStore store = store_for(towers);
    const StrategyPtr strategy = make_strategy(store, options());
    for (const auto& error : on_all(towers, [&](int t) { steps(store, *strategy, t, 6); }))
      EXPECT_FALSE(error) << error->what();
    strategy->settle();
    expect_alike(store);
    EXPECT_NE(store.of(0)[0]->value.data()[0], 1);
    if (strategy->synchronous()) {
      EXPECT_EQ(strategy->step(), 6);
      // The same bits however the towers' threads ran, and by whichever strategy.
      VariableStore again = store_for(towers);
      StrategyOptions plain = options();
      plain.kind = StrategyKind::replicated;
      const StrategyPtr other = make_strategy(again, plain);
      on_all(towers, [&](int t) { steps(again, *other, t, 6); });
      EXPECT_EQ(values(again, 0), values(store, 0));
    } else {
      const StrategyStats stats = strategy->stats();
      EXPECT_EQ(stats.applied + stats.dropped, 6U * static_cast<std::uint64_t>(towers));
    }
  }
}

TEST_P(Strategies, EndAllWaitingWithTheErrorThatOneMet) {
  for (const int towers : GetParam().towers) {
    VariableStore store = store_for(towers);
    const StrategyPtr strategy = make_strategy(store, options());
    const auto errors = on_all(towers, [&](int t) {
      if (t == towers - 1) return strategy->fail(Error(ErrorCode::user, "tower broke"));
      for (int number = 0; number < 1000; ++number) step(store, *strategy, t, number);
    });
    for (int t = 0; t + 1 < towers; ++t) {
      const auto& error = errors[static_cast<std::size_t>(t)];
      if (GetParam().waits) {
        ASSERT_TRUE(error) << t;
      }
      if (!error) continue;
      EXPECT_NE(std::string(error->what()).find("tower broke"), std::string::npos);
    }
    for (int again = 0; again < 2; ++again)
      expect_error(ErrorCode::user, "tower broke", [&] { step(store, *strategy, 0, 0); });
    strategy->fail(Error(ErrorCode::internal, "a second one"));
    expect_error(ErrorCode::user, "tower broke", [&] { step(store, *strategy, 0, 0); });
  }
}

TEST_P(Strategies, SayInTimeThatATowerDoesNotCome) {
  if (!GetParam().waits) return;
  for (const int towers : GetParam().towers) {
    if (towers == 1) continue;
    VariableStore store = store_for(towers);
    StrategyOptions impatient = options();
    impatient.timeout_s = 0.05;
    const StrategyPtr strategy = make_strategy(store, impatient);
    const auto errors = on_all(towers, [&](int t) {
      if (t != 1) step(store, *strategy, t, 0);
    });
    ASSERT_TRUE(errors[0]);
    EXPECT_EQ(errors[0]->code(), ErrorCode::no_progress) << errors[0]->what();
  }
}

TEST_P(Strategies, LetTowersLeaveAndComeAgain) {
  for (const int towers : GetParam().towers) {
    VariableStore store = store_for(towers);
    const StrategyPtr strategy = make_strategy(store, options());
    for (int round = 0; round < 3; ++round) {
      for (const auto& error : on_all(towers, [&](int t) { steps(store, *strategy, t, 2); }))
        EXPECT_FALSE(error) << error->what();
      strategy->settle();
      expect_alike(store);
    }
    if (strategy->synchronous()) {
      EXPECT_EQ(strategy->step(), 6);
    }
  }
}

TEST_P(Strategies, GoOnBehindARestoredUpdate) {
  for (const int towers : GetParam().towers) {
    VariableStore store = store_for(towers);
    const StrategyPtr strategy = make_strategy(store, options());
    on_all(towers, [&](int t) { steps(store, *strategy, t, 1); });
    strategy->settle();
    store.of(0)[2]->value.fill(5);
    strategy->restore(41);
    EXPECT_EQ(strategy->step(), 41);
    for (const auto& error : on_all(towers, [&](int t) { steps(store, *strategy, t, 1); }))
      EXPECT_FALSE(error) << error->what();
    strategy->settle();
    expect_alike(store);
    EXPECT_EQ(store.of(towers - 1)[2]->value.data()[0], 5);
    EXPECT_GT(strategy->step(), 41);
  }
}

TEST_P(Strategies, AreDestroyedAtAnyMoment) {
  for (const int towers : GetParam().towers) {
    for (const int count : {0, 1, 3}) {
      VariableStore store = store_for(towers);
      const StrategyPtr strategy = make_strategy(store, options());
      on_all(towers, [&](int t) { steps(store, *strategy, t, count); });
    }
    // In the middle of a backward pass, too.
    VariableStore store = store_for(towers);
    const StrategyPtr strategy = make_strategy(store, options());
    strategy->begin(0, 1);
    strategy->fail(Error(ErrorCode::cancelled, "the end"));
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, Strategies, testing::ValuesIn(strategies()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace penstock::towers
