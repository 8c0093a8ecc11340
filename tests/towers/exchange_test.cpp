// The exchange of gradients: among towers on the host, and among GPUs with NCCL replaced.
#include "towers/strategies/gradient_exchange.h"

#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/rng.h>

#include "tests/support/errors.h"
#include "tests/towers/arrays.h"
#include "tests/towers/fake_gpu.h"
#include "towers/gpu/gpu.h"

namespace penstock::towers {
namespace exchange_test {

using penstock::test::expect_error;
using penstock::test::thrown_by;
using test::fake_gpu;

constexpr int kNoGpus = -1;

StrategyOptions options_of(std::size_t bucket_bytes, double timeout_s = 30) {
  StrategyOptions options;
  options.bucket_bytes = bucket_bytes;
  options.timeout_s = timeout_s;
  return options;
}

/// Towers on the GPUs named by their numbers, or on the host, with variables of such sizes; a
/// negative one is no variable to train.
struct Towers {
  Towers(const std::vector<int>& places, const std::vector<std::int64_t>& sizes,
         const StrategyOptions& options)
      : store(static_cast<int>(places.size()), 1) {
    for (std::size_t t = 0; t < places.size(); ++t) {
      const int tower = static_cast<int>(t);
      if (places[t] != kNoGpus) {
        gpus.push_back(std::make_unique<Gpu>(device({DeviceKind::host, places[t]}), fake_gpu(),
                                             Precision::f32, false));
        store.use(tower, *gpus.back());
      }
      for (std::size_t v = 0; v < sizes.size(); ++v)
        store.tower(tower).get("v" + std::to_string(v), {std::abs(sizes[v])},
                               {.trainable = sizes[v] > 0});
    }
    store.pack();
    exchange.emplace(store, options);
  }

  int size() const { return store.towers(); }
  /// Runs `body` on a thread of each tower; what each threw.
  std::vector<std::optional<Error>> on_all(const std::function<void(int)>& body) {
    std::vector<std::optional<Error>> errors(static_cast<std::size_t>(size()));
    std::vector<std::jthread> threads;
    for (int t = 0; t < size(); ++t)
      threads.emplace_back([&, t] {
        if (const Gpu* gpu = store.gpu(t)) gpu->enter();
        errors[static_cast<std::size_t>(t)] = thrown_by([&] { body(t); });
      });
    threads.clear();
    return errors;
  }
  /// What a layer does.
  void add(int tower, std::size_t v, const std::vector<float>& gradient) {
    Variable& variable = *store.of(tower)[v];
    variable.accumulate();
    assign(variable.gpu, gradient, variable.gradient);
    variable.added();
  }
  std::vector<float> gradient(int tower, std::size_t v) {
    return test::list(on_host(store.gpu(tower), store.of(tower)[v]->gradient));
  }

  std::vector<std::unique_ptr<Gpu>> gpus;
  VariableStore store;
  std::optional<GradientExchange> exchange;
};

TEST(Buckets, AreFilledFromTheLastVariableOn) {
  VariableStore store(1, 1);
  for (const std::int64_t size : {10, 20, 100, 5, 5})
    store.tower(0).get("v" + std::to_string(size) + std::to_string(store.of(0).size()), {size}, {});
  store.pack();
  const auto firsts = [&](std::size_t bytes) {
    std::vector<std::size_t> result;
    std::size_t last = 5;
    for (const Bucket& bucket : buckets_of(store, bytes)) {
      EXPECT_EQ(bucket.last, last);
      EXPECT_EQ(bucket.begin, store.offset(bucket.first));
      EXPECT_EQ(bucket.end, store.offset(last - 1) + store.of(0)[last - 1]->value.size());
      last = bucket.first;
      result.push_back(bucket.first);
    }
    EXPECT_EQ(last, 0U);
    return result;
  };
  using testing::ElementsAre;
  EXPECT_THAT(firsts(0), ElementsAre(4, 3, 2, 1, 0));
  // They begin at 0, 64, 128, 256 and 320, and the last ends at 325.
  EXPECT_THAT(firsts(4 * 69), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(firsts(4 * 84), ElementsAre(3, 2, 0));
  EXPECT_THAT(firsts(4 * 197), ElementsAre(2, 0));
  EXPECT_THAT(firsts(4 * 325 - 1), ElementsAre(1, 0));
  EXPECT_THAT(firsts(4 * 325), ElementsAre(0));
}

struct Setting {
  std::string name;
  std::vector<int> places;
};

class Exchange : public testing::TestWithParam<Setting> {};

INSTANTIATE_TEST_SUITE_P(Places, Exchange,
                         testing::Values(Setting{"host", {kNoGpus, kNoGpus, kNoGpus}},
                                         Setting{"host_alone", {kNoGpus}},
                                         Setting{"gpu_alone", {0}}, Setting{"gpus", {0, 1}},
                                         Setting{"shared", {2, 2, 2}},
                                         Setting{"shared_and_not", {0, 1, 0, 1}}),
                         [](const auto& made) { return made.param.name; });

TEST_P(Exchange, GivesTheSameBitsHoweverLargeBucketsAre) {
  const std::vector<std::int64_t> sizes{7, 5000, -3, 1, 64, -2};
  const auto run = [&](std::size_t bytes, Combine combine) {
    StrategyOptions options = options_of(bytes);
    options.combine = combine;
    Towers towers(GetParam().places, sizes, options);
    const int count = towers.size();
    for (std::uint64_t step = 0; step < 4; ++step) {
      // Variable 0 is of tower 0 alone, 3 of nobody in step 2; tower 1 has no rows in step 3.
      const auto has = [&](int tower, std::size_t v) {
        return v == 0 ? tower == 0 : v != 3 || step != 2;
      };
      const auto rows = [&](int tower) { return tower == 1 && step == 3 ? 0 : 2 + tower; };
      const auto value = [&](int tower, std::size_t v, std::int64_t i) {
        return 0.1F * static_cast<float>(tower + 1) + static_cast<float>(v + step) +
               0.01F * static_cast<float>(i);
      };
      for (const auto& error : towers.on_all([&](int tower) {
             for (Variable* variable : towers.store.of(tower)) variable->begin_step();
             towers.exchange->begin(tower, rows(tower));
             // Not always from the last on.
             for (const std::size_t v : {step == 1 ? 0U : 4U, 3U, 1U, step == 1 ? 4U : 0U}) {
               if (!has(tower, v)) continue;
               std::vector<float> gradient;
               for (std::int64_t i = 0; i < sizes[v]; ++i) gradient.push_back(value(tower, v, i));
               towers.add(tower, v, gradient);
             }
             towers.exchange->finish(tower, rows(tower));
           }))
        EXPECT_FALSE(error) << error->what();
      for (std::size_t v = 0; v < sizes.size(); ++v) {
        double total = 0;
        for (int t = 0; t < count; ++t) total += sizes[v] > 0 && has(t, v) ? rows(t) : 0;
        float expected = 0;
        for (int t = 0; t < count; ++t)
          if (has(t, v) && rows(t) > 0)
            expected += value(t, v, 0) *
                        (combine == Combine::sum ? 1 : static_cast<float>(rows(t) / total));
        for (int t = 0; t < count; ++t) {
          EXPECT_EQ(towers.store.of(t)[v]->has_gradient, total > 0) << v << " in step " << step;
          EXPECT_EQ(towers.gradient(t, v), towers.gradient(0, v)) << v;
          if (total > 0) {
            EXPECT_FLOAT_EQ(towers.gradient(t, v)[0], expected) << v;
          }
        }
      }
    }
    std::vector<std::vector<float>> all;
    for (std::size_t v = 0; v < sizes.size(); ++v) all.push_back(towers.gradient(0, v));
    return all;
  };
  for (const Combine combine : {Combine::average, Combine::sum}) {
    const auto whole = run(std::size_t{1} << 30, combine);
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{260}, std::size_t{30'000}})
      EXPECT_EQ(run(bytes, combine), whole) << bytes;
  }
}

TEST_P(Exchange, GradientBehindTheLast) {
  Towers towers(GetParam().places, {2, 2}, options_of(0));
  Variable& variable = *towers.store.of(0)[1];
  variable.begin_step();
  towers.exchange->begin(0, 1);
  towers.add(0, 1, {1, 1});
  expect_error(ErrorCode::invalid_argument, "variable v1 gets another gradient behind its last",
               [&] { variable.accumulate(); });
}

TEST_P(Exchange, FailedBackwardPass) {
  Towers towers(GetParam().places, {2, 2}, options_of(0));
  const int last = towers.size() - 1;
  const auto errors = towers.on_all([&](int tower) {
    for (Variable* variable : towers.store.of(tower)) variable->begin_step();
    towers.exchange->begin(tower, 1);
    towers.add(tower, 1, {1, 1});
    if (tower == last) return towers.exchange->fail(Error(ErrorCode::user, "tower broke"));
    towers.exchange->finish(tower, 1);
  });
  for (int t = 0; t < last; ++t) {
    ASSERT_TRUE(errors[static_cast<std::size_t>(t)]);
    EXPECT_THAT(errors[static_cast<std::size_t>(t)]->what(), testing::HasSubstr("tower broke"));
  }
  expect_error(ErrorCode::user, "tower broke", [&] { towers.exchange->begin(0, 1); });
}

TEST_P(Exchange, MissingTower) {
  if (GetParam().places.size() < 2) GTEST_SKIP() << "nobody waits";
  Towers towers(GetParam().places, {2, 2}, options_of(0, 0.1));
  const auto errors = towers.on_all([&](int tower) {
    if (tower != 1) towers.exchange->finish(tower, 1);
  });
  ASSERT_TRUE(errors[0]);
  EXPECT_EQ(errors[0]->code(), ErrorCode::no_progress);
  // Others may be late, too.
  EXPECT_THAT(errors[0]->what(),
              testing::ContainsRegex("tower (0, )?1(, [0-9])* has not come to the exchange"));
}

TEST(NcclExchange, BeginsWhileBackwardPassesGoOn) {
  Towers towers({0, 0, 1}, {3, 4, 2, 2}, options_of(4 * 66));
  test::nccl_exchanges();
  std::vector<std::size_t> seen;
  for (const auto& error : towers.on_all([&](int tower) {
         for (Variable* variable : towers.store.of(tower)) variable->begin_step();
         towers.exchange->begin(tower, 1);
         towers.add(tower, 3, {1, 1});
         towers.add(tower, 2, {1, 1});
         towers.add(tower, 1, {1, 1, 1, 1});
         if (tower == 0)
           while (seen.size() < 2)
             for (const std::size_t values : test::nccl_exchanges()) seen.push_back(values);
         towers.add(tower, 0, {1, 1, 1});
         towers.exchange->finish(tower, 1);
         towers.store.gpu(tower)->stream().synchronize();
       }))
    EXPECT_FALSE(error);
  EXPECT_THAT(seen, testing::ElementsAre(66, 4)) << "two small ones in the first bucket";
  EXPECT_THAT(test::nccl_exchanges(), testing::ElementsAre(3));
}

TEST(NcclExchange, RankInErrors) {
  struct Trouble {
    test::NcclTrouble what;
    std::string text;
  };
  for (const auto& [what, text] :
       {Trouble{{.reports = 1}, "NCCL rank 1 (host:1) reported: the fake's error"},
        Trouble{{.refuses = 1}, "NCCL rank 1 (host:1): the fake's error"},
        Trouble{{.hangs = 1}, "its exchange did not end in 2"}}) {
    // Short only for the exchange that hangs; long enough for all towers to come to it.
    Towers towers({0, 1, 1}, {4}, options_of(0, what.hangs < 0 ? 30 : 2));
    test::set_nccl_trouble(what);
    const auto errors = towers.on_all([&](int tower) {
      towers.exchange->finish(tower, 1);  // which does not wait for streams
      towers.store.gpu(tower)->stream().synchronize();
      towers.exchange->begin(tower, 1);
    });
    test::set_nccl_trouble({});
    for (const auto& error : errors) {
      ASSERT_TRUE(error);
      EXPECT_THAT(error->what(), testing::HasSubstr(text));
    }
    expect_error(errors[0]->code(), text, [&] { towers.exchange->finish(0, 1); });
  }
}

TEST(NcclExchange, IsAskedForWhereThereIsOneGpuOnlyIfTheOptionsSaySo) {
  for (const std::vector<int>& places : {std::vector<int>{0}, {2, 2, 2}, {0, 1, 1}}) {
    const bool one = places[0] == places.back();
    std::vector<std::vector<float>> sums;
    for (const bool alone : {false, true}) {
      StrategyOptions options = options_of(0);
      options.nccl_alone = alone;
      Towers towers(places, {4}, options);
      EXPECT_EQ(test::nccl_communicators(), !one ? 2 : alone ? 1 : 0);
      test::nccl_exchanges();
      for (const auto& error : towers.on_all([&](int tower) {
             for (Variable* variable : towers.store.of(tower)) variable->begin_step();
             towers.exchange->begin(tower, 1);
             towers.add(tower, 0, {1, 2, 3, 0.1F * static_cast<float>(tower)});
             towers.exchange->finish(tower, 1);
             towers.store.gpu(tower)->stream().synchronize();
           }))
        EXPECT_FALSE(error);
      EXPECT_EQ(test::nccl_exchanges().size(), !one || alone ? 1U : 0U);
      sums.push_back(towers.gradient(0, 0));
    }
    EXPECT_EQ(sums[0], sums[1]);
  }
}

// An abort frees what the call that is under way uses. The fake ends the program then.
TEST(NcclExchange, AbortedCommunicators) {
  for (const int refuses : {-1, 1}) {
    Towers towers({0, 1}, {4}, options_of(0));
    EXPECT_EQ(test::nccl_communicators(), 2);
    const auto meanwhile = [&] {
      towers.exchange->fail(Error(ErrorCode::user, "tower broke"));
      EXPECT_EQ(test::nccl_communicators(), 2);
    };
    test::set_nccl_trouble({.refuses = refuses, .meanwhile = meanwhile});
    const auto errors = towers.on_all([&](int tower) { towers.exchange->finish(tower, 1); });
    for (const auto& error : errors) {
      ASSERT_TRUE(error);
      EXPECT_THAT(error->what(), testing::HasSubstr("tower broke"));
    }
    towers.exchange.reset();
    test::set_nccl_trouble({});
    EXPECT_EQ(test::nccl_communicators(), 0);
  }
}

TEST(NcclExchange, MixedDevices) {
  expect_error(ErrorCode::invalid_argument, "all on GPUs, or all on the host", [] {
    Towers({0, kNoGpus}, {2}, options_of(0));
  });
}

}  // namespace exchange_test
}  // namespace penstock::towers
