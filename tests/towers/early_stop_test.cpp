// Runs that end as their evaluations get no better.
#include "towers/evaluate/early_stop.h"

#include <cmath>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/time_limit.h"
#include "tests/towers/linked_peers.h"
#include "tests/towers/twins.h"
#include "towers/checkpoint/checkpoint.h"
#include "towers/checkpoint/run_folder.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using penstock::test::TempFolder;
using test::options_for;
using test::points;
using testing::ElementsAre;

TEST(EarlyStop, IsDueOncePatienceHasEnded) {
  struct Case {
    Measure by;
    std::vector<double> figures;
    std::size_t due;  // behind so many evaluations; 0: never
    std::uint64_t best;
  };
  const double nan = std::nan("");
  for (const Case& c :
       {Case{Measure::loss, {3, 2, 2, 1, 1, 1, 1}, 6, 3}, Case{Measure::loss, {1, 2, 3}, 3, 0},
        Case{Measure::loss, {3, nan, 2, nan, nan}, 5, 2},
        Case{Measure::loss, {3, 4, 2, 4, 1}, 0, 4},
        Case{Measure::accuracy, {0.1, 0.3, 0.3, 0.2}, 4, 1}}) {
    EarlyStop early(2, c.by);
    EarlyStop never(0, c.by);
    std::size_t due = 0;
    for (std::size_t i = 0; i < c.figures.size(); ++i) {
      // Saved and restored in between.
      EarlyStop next(2, c.by);
      next.restore(early.save());
      next.take({i, c.figures[i], c.figures[i], 1});
      never.take({i, c.figures[i], c.figures[i], 1});
      if (next.due() && due == 0) due = i + 1;
      EXPECT_FALSE(never.due());
      early = EarlyStop(2, c.by);
      early.restore(next.save());
    }
    EXPECT_EQ(due, c.due);
    EXPECT_EQ(early.best_step(), c.best);
  }
}

TEST(EarlyStop, OfAnotherMeasureIsDroppedAndNonsenseRefused) {
  EarlyStop early(2, Measure::loss);
  early.restore("accuracy 5 3 0.5");
  EXPECT_FALSE(early.due());
  EXPECT_EQ(early.best_step(), std::nullopt);
  for (const char* wrong : {"loss", "loss x", "loss -1", ""})
    expect_error(ErrorCode::data_loss, "does not say how its evaluations went",
                 [&] { early.restore(wrong); });
}

/// Its loss in evaluations is that of a list, one after each step.
class Listed final : public Model {
 public:
  Listed(const Scope& scope, const std::vector<double>& losses)
      : weights_(scope.get("w", {1}, {})), losses_(losses) {}
  Loss forward(const Batch& batch, const Pass& pass) override {
    const auto rows = static_cast<double>(batch.valid_rows());
    // Each step adds 1 to the variable, so that it says how many there were.
    const auto step = static_cast<std::size_t>(std::lround(weights_.value.data()[0]));
    const double loss = pass.training ? 1 : losses_.at(step);
    return {loss * rows, 0, 0, batch.valid_rows()};
  }
  void backward(const Pass& /*pass*/) override {
    const float keep = weights_.accumulate();
    float& gradient = weights_.gradient.data()[0];
    gradient = (keep == 0 ? 0 : keep * gradient) - 1;
    weights_.added();
  }

 private:
  Variable& weights_;
  const std::vector<double>& losses_;
};

struct Seen : TrainObserver {
  void on_evaluation(const Evaluation& one) override { steps.push_back(one.step); }
  std::vector<std::uint64_t> steps{};
};

class Patient : public testing::TestWithParam<bool> {
 protected:
  TrainOptions options(const std::string& folder, std::uint64_t max_steps = 0) const {
    TrainOptions all = options_for(2, 4);
    all.epochs = 10;
    all.max_steps = max_steps;
    all.evaluate_every = 1;
    all.checkpoint_folder = folder;
    all.checkpoint_every = 1;
    all.patience = 2;
    all.strategy.update = {make_optimizer("sgd"), Schedule::constant(1)};
    if (GetParam()) all.validation_device = device({DeviceKind::host, 7});
    return all;
  }
  TrainResult run(const TrainOptions& options) {
    seen_ = {};
    const auto make = [this](const Scope& scope) -> ModelPtr {
      return std::make_unique<Listed>(scope, losses_);
    };
    Trainer trainer(make, points(64), points(8), options);
    return trainer.run(seen_);
  }
  static std::vector<std::uint64_t> kept(const TempFolder& folder) {
    std::vector<std::uint64_t> steps;
    for (const CheckpointFile& file : checkpoint_files(folder.path())) steps.push_back(file.step);
    return steps;
  }

  // Of the variables after so many steps.
  const std::vector<double> losses_{9, 5, 4, 3, 3.5, 3.2, 1, 1, 1, 1};
  Seen seen_;
};

INSTANTIATE_TEST_SUITE_P(Beside, Patient, testing::Bool(),
                         [](const auto& made) { return made.param ? "beside" : "in_turn"; });

TEST_P(Patient, EndsAndKeepsTheCheckpointOfTheBest) {
  const TempFolder folder;
  TrainOptions all = options(folder.path());
  all.checkpoints_kept = 1;
  const TrainResult result = run(all);
  EXPECT_TRUE(result.early_stopped);
  EXPECT_FALSE(result.stopped);
  EXPECT_EQ(result.steps, 5U);
  EXPECT_THAT(seen_.steps, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(kept(folder), ElementsAre(3, 5));
  // It has ended, whoever asks again.
  const TrainResult again = run(all);
  EXPECT_TRUE(again.early_stopped);
  EXPECT_EQ(again.steps, 5U);
  EXPECT_TRUE(again.losses.empty());
  EXPECT_THAT(kept(folder), ElementsAre(3, 5));
  // With more patience it continues, and finds a better one.
  all.patience = 3;
  const TrainResult more = run(all);
  EXPECT_EQ(more.resumed_at, 5U);
  EXPECT_EQ(more.steps, 9U);
  EXPECT_THAT(kept(folder), ElementsAre(6, 9));
}

TEST_P(Patient, CountsOnWhenTheRunGoesOn) {
  for (std::uint64_t stop = 1; stop <= 4; ++stop) {
    const TempFolder folder;
    EXPECT_EQ(run(options(folder.path(), stop)).steps, stop);
    const TrainResult rest = run(options(folder.path()));
    EXPECT_EQ(rest.resumed_at, stop);
    EXPECT_EQ(rest.steps, 5U) << stop;
    EXPECT_TRUE(rest.early_stopped);
  }
}

TEST(Patience, EndsAllProcessesAfterTheSameStep) {
  const penstock::test::TimeLimit limit(60);
  const std::vector<double> losses{9, 5, 4, 6, 7, 8, 9, 9, 9, 9, 9};
  test::Link gradients(2);
  test::Link between(2);
  std::vector<TrainResult> results(2);
  const auto rank = [&](int r) {
    test::LinkedPeers peers(r, gradients, between, true);
    TrainOptions options = options_for(1, 4);
    options.epochs = 10;
    options.evaluate_every = 1;
    options.patience = 2;
    options.strategy.update = {make_optimizer("sgd"), Schedule::constant(1)};
    options.strategy.peers = &peers;
    const auto make = [&losses](const Scope& scope) -> ModelPtr {
      return std::make_unique<Listed>(scope, losses);
    };
    Trainer trainer(make, points(64), points(8), options);
    TrainObserver nobody;
    results[static_cast<std::size_t>(r)] = trainer.run(nobody);
  };
  {
    std::jthread other([&] { rank(1); });
    rank(0);
  }
  EXPECT_EQ(results[0].steps, 4U);
  EXPECT_EQ(results[1].steps, 4U);
  EXPECT_TRUE(results[0].early_stopped);
}

TEST(Patience, NeedsWhatItCounts) {
  TrainOptions options = options_for(1, 4);
  options.patience = 1;
  expect_error(ErrorCode::invalid_argument, "patience needs a dataset to evaluate with", [&] {
    Trainer trainer(test::maker<test::Linear>(), points(8), std::nullopt, options);
  });
  options.patience = -1;
  expect_error(ErrorCode::invalid_argument, "patience can't be less", [&] {
    Trainer trainer(test::maker<test::Linear>(), points(8), points(8), options);
  });
}

}  // namespace
}  // namespace penstock::towers
