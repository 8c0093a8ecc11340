// The input never holds the trainer back; and where it does, the ledger says by what. On simulated
// time tests/staging/feed_proof_test.cpp shows the same to the nanosecond.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/towers/twins.h"

namespace penstock::towers {
namespace {

using test::Hidden;
using test::Linear;
using test::maker;
using test::options_for;
using test::picture_twin;
using test::points;

TrainObserver nobody;

/// A model whose steps take 10 ms and burn no CPU.
class Paced : public Linear {
 public:
  explicit Paced(const Scope& scope) : Linear(scope) {}
  void backward(const Pass& pass) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    Linear::backward(pass);
  }
};

void expect_ledger(const TrainResult& result) {
  for (const TowerStats& tower : result.feed.towers) {
    EXPECT_NEAR(tower.stall_s + tower.step_s + tower.other_s, tower.wall_s, 1e-6);
    const double charged =
        std::accumulate(tower.causes.begin(), tower.causes.end(), 0.0,
                        [](double sum, const auto& cause) { return sum + cause.second; });
    EXPECT_NEAR(charged, tower.stall_s, 1e-6);
    EXPECT_GT(tower.steps, 0U);
  }
}

TEST(Stall, SlowSteps) {
  for (const FeedMode mode : {FeedMode::split, FeedMode::per_tower, FeedMode::sharded}) {
    // Other programs may take the machine away: then it is measured again. A machine with nothing
    // else to do shows at most 1 %; the bound tells a busy one from an input that holds steps back,
    // which stall for more than half of the time then.
    double worst = 1;
    for (int attempt = 0; attempt < 4 && worst > 0.01; ++attempt) {
      TrainOptions options = options_for(2, 4);
      options.feed.mode = mode;
      options.max_steps = 50;
      options.epochs = 20;
      Trainer trainer(maker<Paced>(), points(200).shuffle(), std::nullopt, options);
      const TrainResult result = trainer.run(nobody);
      expect_ledger(result);
      worst = 0;
      for (const TowerStats& tower : result.feed.towers)
        worst = std::max(worst, tower.stall_share());
    }
    std::printf("figure: mode %d: %.2f %% of the time stalled\n", static_cast<int>(mode),
                100 * worst);
    EXPECT_LE(worst, 0.2) << static_cast<int>(mode);
  }
}

TEST(Stall, SlowInput) {
  const Dataset slow = points(200).map(
      [](Element element) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return element;
      },
      {.name = "slow"});
  TrainOptions options = options_for(2, 4);
  options.max_steps = 15;
  options.feed.run.threads = 1;
  Trainer trainer(maker<Hidden>(), slow, std::nullopt, options);
  const TrainResult result = trainer.run(nobody);
  expect_ledger(result);
  for (const TowerStats& tower : result.feed.towers) {
    EXPECT_GT(tower.stall_share(), 0.3);
    const auto most =
        std::ranges::max_element(tower.causes, {}, &std::pair<std::string, double>::second);
    EXPECT_THAT(most->first, testing::HasSubstr("slow"));
  }
}

TEST(Stall, RealTraining) {
  const ModelKind& kind = model_kind("cifar10");
  TrainOptions options = options_for(2, 8);
  options.max_steps = 4;
  Trainer trainer(kind.make, kind.input(picture_twin(160).shuffle(), true), std::nullopt, options);
  const TrainResult result = trainer.run(nobody);
  expect_ledger(result);
  for (const TowerStats& tower : result.feed.towers) EXPECT_GT(tower.step_s, 0.2 * tower.wall_s);
}

}  // namespace
}  // namespace penstock::towers
