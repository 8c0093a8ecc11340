// Gradients of towers in several processes: on the host, and on GPUs with NVIDIA's libraries
// replaced.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/time_limit.h"
#include "tests/towers/arrays.h"
#include "tests/towers/fake_gpu.h"
#include "tests/towers/linked_peers.h"
#include "towers/gpu/gpu.h"
#include "towers/strategies/gradient_exchange.h"

namespace penstock::towers {
namespace peers_exchange_test {

using penstock::test::thrown_by;
using penstock::test::TimeLimit;

const std::vector<std::int64_t> kSizes{7, 5000, 1, 64};
constexpr int kSteps = 3;

/// The towers of one process.
struct Process {
  Process(int towers, bool on_gpus, Peers* peers, std::size_t bucket_bytes) : store(towers, 1) {
    for (int t = 0; t < towers; ++t) {
      if (on_gpus) {
        gpus.push_back(std::make_unique<Gpu>(device({DeviceKind::host, t}), test::fake_gpu(),
                                             Precision::f32, false));
        store.use(t, *gpus.back());
      }
      for (std::size_t v = 0; v < kSizes.size(); ++v)
        store.tower(t).get("v" + std::to_string(v), {kSizes[v]}, {});
    }
    store.pack();
    StrategyOptions options;
    options.bucket_bytes = bucket_bytes;
    options.timeout_s = 30;
    options.peers = peers;
    exchange.emplace(store, options);
  }

  /// Steps of a tower whose number among all is `number`. Variable 0 has no gradient on the last of
  /// four; tower 1 has no rows in step 1.
  void train(int tower, int number) {
    if (const Gpu* gpu = store.gpu(tower)) gpu->enter();
    for (int step = 0; step < kSteps; ++step) {
      const std::int64_t rows = number == 1 && step == 1 ? 0 : 3 + number;
      for (Variable* variable : store.of(tower)) variable->begin_step();
      exchange->begin(tower, rows);
      for (std::size_t v = kSizes.size(); v-- > 0;) {
        if (v == 0 && number == 3) continue;
        std::vector<float> gradient;
        for (std::int64_t i = 0; i < kSizes[v]; ++i)
          gradient.push_back(0.1F * static_cast<float>(number + 1) +
                             1.7F * static_cast<float>(step) + 0.013F * static_cast<float>(i));
        Variable& variable = *store.of(tower)[v];
        variable.accumulate();
        assign(variable.gpu, gradient, variable.gradient);
        variable.added();
      }
      exchange->finish(tower, rows);
    }
  }
  std::vector<float> gradients(int tower) {
    std::vector<float> all;
    for (const Variable* variable : store.of(tower))
      for (const float value : test::list(on_host(store.gpu(tower), variable->gradient)))
        all.push_back(value);
    return all;
  }

  std::vector<std::unique_ptr<Gpu>> gpus;
  VariableStore store;
  std::optional<GradientExchange> exchange;
};

struct Place {
  const char* name;
  bool on_gpus;
  bool any_order;
};

/// What every tower of four has behind the last step.
std::vector<std::vector<float>> gradients_of(int processes, const Place& place,
                                             std::size_t bucket_bytes) {
  constexpr int kTowers = 4;
  const int here = kTowers / processes;
  test::Link gradients(processes), between(processes);
  std::vector<std::vector<float>> all(kTowers);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < processes; ++rank)
    ranks.emplace_back([&, rank] {
      test::LinkedPeers peers(rank, gradients, between, place.any_order);
      Process process(here, place.on_gpus, processes > 1 ? &peers : nullptr, bucket_bytes);
      std::vector<std::jthread> towers;
      for (int t = 0; t < here; ++t)
        towers.emplace_back([&, t] {
          const auto error = thrown_by([&] { process.train(t, rank * here + t); });
          EXPECT_FALSE(error) << error->what();
          if (error) peers.fail(*error);
        });
      towers.clear();
      for (int t = 0; t < here; ++t)
        all[static_cast<std::size_t>(rank * here + t)] = process.gradients(t);
    });
  ranks.clear();
  return all;
}

class PeersExchange : public testing::TestWithParam<Place> {};

TEST_P(PeersExchange, GivesEveryTowerWhatOneProcessWould) {
  const TimeLimit limit(100);
  const Place on_host{"host", false, false};
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{30'000}}) {
    const std::vector<float> one = gradients_of(1, on_host, bytes).front();
    for (const int processes : {2, 4}) {
      const auto many = gradients_of(processes, GetParam(), bytes);
      for (const std::vector<float>& of_tower : many) {
        ASSERT_EQ(of_tower.size(), one.size());
        if (!GetParam().any_order) {
          EXPECT_EQ(of_tower, one) << processes << " processes";
        } else {
          EXPECT_EQ(of_tower, many.front());
          for (std::size_t i = 0; i < one.size(); ++i) ASSERT_FLOAT_EQ(of_tower[i], one[i]) << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Places, PeersExchange,
                         testing::Values(Place{"host", false, false},
                                         Place{"gpus_in_order", true, false},
                                         Place{"gpus_in_any_order", true, true}),
                         [](const auto& row) { return row.param.name; });

TEST(PeersExchange, NcclBetweenProcesses) {
  const TimeLimit limit(60);
  test::nccl_exchanges();
  gradients_of(4, {"gpus", true, true}, std::size_t{1} << 20);
  EXPECT_EQ(test::nccl_exchanges().size(), static_cast<std::size_t>(kSteps));
  EXPECT_EQ(test::nccl_communicators(), 0);
  gradients_of(4, {"gpus", true, false}, std::size_t{1} << 20);
  EXPECT_TRUE(test::nccl_exchanges().empty()) << "in order they are added up on the host";
}

TEST(PeersExchange, FailedProcess) {
  const TimeLimit limit(60);
  for (const bool any_order : {false, true}) {
    test::Link gradients(2), between(2);
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&, rank] {
        test::LinkedPeers peers(rank, gradients, between, any_order);
        // Rank 0 may hear of it while it still connects.
        const auto error = thrown_by([&] {
          Process process(1, true, &peers, 0);
          if (rank == 1) return peers.fail(Error(ErrorCode::unavailable, "rank 1 broke"));
          process.train(0, 0);
        });
        if (rank == 1) return;
        ASSERT_TRUE(error);
        EXPECT_NE(std::string(error->what()).find("rank 1 broke"), std::string::npos)
            << error->what();
      });
  }
}

}  // namespace peers_exchange_test
}  // namespace penstock::towers
