#include <penstock/towers/trainer.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/data.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/towers/twins.h"

namespace penstock::towers {
namespace {

using penstock::test::data_path;
using penstock::test::thrown_by;
using test::Hidden;
using test::Linear;
using test::maker;
using test::options_for;
using test::picture_twin;
using test::points;

TrainObserver nobody;

/// PENSTOCK_TRAIN_STEPS, or few.
std::uint64_t steps_or(std::uint64_t few) {
  const char* text = std::getenv("PENSTOCK_TRAIN_STEPS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : few;
}

double mean(const std::vector<float>& values, std::size_t first, std::size_t last) {
  double sum = 0;
  for (std::size_t i = first; i < last; ++i) sum += static_cast<double>(values[i]);
  return sum / static_cast<double>(last - first);
}

struct Towers {
  int count;
  std::int64_t batch;
  FeedMode mode;
};

/// One tower with 2B, two with B in the three ways, four with B/2: the same updates.
const std::vector<Towers> kAlike{{1, 16, FeedMode::per_tower}, {2, 8, FeedMode::split},
                                 {2, 8, FeedMode::per_tower},  {2, 8, FeedMode::sharded},
                                 {4, 4, FeedMode::per_tower},  {4, 4, FeedMode::sharded}};

/// Steps of which the variables after training, and the gradients of the last, are returned.
struct Trained {
  std::vector<std::vector<float>> values, gradients;
};

Trained train(const ModelMaker& make, const Dataset& data, const Towers& towers,
              std::uint64_t steps) {
  TrainOptions options = options_for(towers.count, towers.batch);
  options.feed.mode = towers.mode;
  options.max_steps = steps;
  options.epochs = 100;
  Trainer trainer(make, data, std::nullopt, options);
  EXPECT_EQ(trainer.run(nobody).steps, steps);
  Trained result;
  for (const Variable* variable : trainer.variables().of(0)) {
    result.values.emplace_back(variable->value.data(),
                               variable->value.data() + variable->value.size());
    result.gradients.emplace_back(variable->gradient.data(),
                                  variable->gradient.data() + variable->gradient.size());
  }
  return result;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(a[i]), 2);
  }
  return std::sqrt(difference) / (std::sqrt(norm) + 1e-12);
}

void expect_alike(const ModelMaker& make, const Dataset& data, std::uint64_t steps,
                  double tolerance) {
  const Trained first = train(make, data, kAlike.front(), 1);
  const Trained last = train(make, data, kAlike.front(), steps);
  for (std::size_t i = 1; i < kAlike.size(); ++i) {
    SCOPED_TRACE("setting " + std::to_string(i));
    const Trained one = train(make, data, kAlike[i], 1);
    const Trained all = train(make, data, kAlike[i], steps);
    for (std::size_t v = 0; v < first.values.size(); ++v) {
      EXPECT_LE(distance(first.gradients[v], one.gradients[v]), 1e-5) << v;
      EXPECT_LE(distance(last.values[v], all.values[v]), tolerance) << v;
    }
  }
}

TEST(Trainer, TowersAsOneWithBatchesTogether) {
  expect_alike(maker<Linear>(), points(640).shuffle(), 20, 1e-5);
}

TEST(Trainer, TowersAsOneWithDropout) {
  expect_alike(maker<Hidden>(), points(640).shuffle(), 20, 1e-5);
}

TEST(Trainer, TowersAsOneOnTheCifarNetwork) {
  const ModelKind& kind = model_kind("cifar10");
  expect_alike(kind.make, kind.input(picture_twin(320).shuffle(), true),
               std::min<std::uint64_t>(20, steps_or(3)), 1e-4);
}

TEST(Trainer, LearnsInEveryStrategyAndFeedMode) {
  for (const StrategyKind kind :
       {StrategyKind::replicated, StrategyKind::parameter_device, StrategyKind::spread,
        StrategyKind::async, StrategyKind::sync_replicas}) {
    for (const FeedMode mode : {FeedMode::split, FeedMode::per_tower, FeedMode::sharded}) {
      if (kind == StrategyKind::sync_replicas && mode != FeedMode::per_tower) continue;
      SCOPED_TRACE(std::string(name_of(kind)) + " " + std::to_string(static_cast<int>(mode)));
      TrainOptions options = options_for(2, 16);
      options.feed.mode = mode;
      options.epochs = 12;
      options.strategy.kind = kind;
      options.strategy.max_staleness = 4;  // else it depends on the scheduler how well async learns
      options.strategy.update = {make_optimizer("momentum:0.9"), Schedule::parse("cosine:0.1")};
      Trainer trainer(maker<Linear>(), points(640).shuffle(), points(200), options);
      const TrainResult result = trainer.run(nobody);
      ASSERT_TRUE(result.evaluation);
      EXPECT_EQ(result.evaluation->rows, 200);
      EXPECT_GT(result.evaluation->accuracy, 0.95);
      EXPECT_GE(result.steps, 200U);
    }
  }
}

TEST(Trainer, SyncReplicasOfAll) {
  const auto digest = [](StrategyKind kind, int aggregate) {
    TrainOptions options = options_for(3, 8);
    options.deterministic = true;
    options.epochs = 3;
    options.strategy.kind = kind;
    options.strategy.aggregate = aggregate;
    options.strategy.update = {make_optimizer("momentum:0.9"), Schedule::parse("cosine:0.1")};
    Trainer trainer(maker<Hidden>(), points(325).shuffle(), std::nullopt, options);
    return trainer.run(nobody).digest;
  };
  const std::uint64_t expected = digest(StrategyKind::replicated, 0);
  EXPECT_EQ(digest(StrategyKind::sync_replicas, 0), expected);
  EXPECT_EQ(digest(StrategyKind::sync_replicas, 3), expected);
  const std::optional<Error> error = thrown_by([&] { digest(StrategyKind::sync_replicas, 2); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::HasSubstr("not deterministic"));
}

TEST(Trainer, LearnsTheTwinOfCifar) {
  const std::uint64_t steps = steps_or(30);
  const ModelKind& kind = model_kind("cifar10");
  TrainOptions options = options_for(2, 16);
  options.max_steps = steps;
  options.epochs = 100;
  options.strategy.update = {make_optimizer(kind.optimizer), Schedule::constant(0.01)};
  Trainer trainer(kind.make, kind.input(picture_twin(640).shuffle(), true),
                  kind.input(picture_twin(100, 2), false), options);
  const TrainResult result = trainer.run(nobody);
  ASSERT_EQ(result.losses.size(), steps);
  EXPECT_LT(mean(result.losses, steps - 5, steps), mean(result.losses, 0, 5) - 0.3);
  EXPECT_GT(result.evaluation->accuracy, 0.3);
}

TEST(Trainer, LearnsRealPictures) {
  const std::string path = data_path("cifar10-train.tar");
  PENSTOCK_NEED_DATA(path);
  const std::uint64_t steps = steps_or(24);
  const ModelKind& kind = model_kind("cifar10");
  TrainOptions options = options_for(2, 32);
  options.max_steps = steps;
  options.strategy.update = {make_optimizer("adam"), Schedule::constant(0.001)};
  Trainer trainer(kind.make, kind.input(tar({path}, {{.index_folder = "-"}}).shuffle(), true),
                  std::nullopt, options);
  const TrainResult result = trainer.run(nobody);
  EXPECT_LT(mean(result.losses, steps - 5, steps), mean(result.losses, 0, 5) - 0.1);
}

TEST(Trainer, NetworkOverSeveralDevices) {
  const auto digest = [](int devices, StrategyKind kind) {
    TrainOptions options = options_for(devices, 16);
    options.epochs = 2;
    options.strategy.kind = kind;
    Trainer trainer(maker<Hidden>(), points(100).shuffle(), points(30), options);
    const TrainResult result = trainer.run(nobody);
    EXPECT_EQ(result.steps, 12U);
    return std::pair(result.digest, result.evaluation->loss);
  };
  const auto one = digest(1, StrategyKind::replicated);
  for (const int devices : {1, 2, 4}) EXPECT_EQ(digest(devices, StrategyKind::model_parallel), one);
  EXPECT_THAT(thrown_by([&] { digest(5, StrategyKind::model_parallel); })->what(),
              testing::HasSubstr("4 layers can't be divided among 5 devices"));
}

TEST(Trainer, ResNet18OnOneBatch) {
  TrainOptions options = options_for(1, 32);
  options.epochs = 20;
  options.strategy.update = {make_optimizer("momentum:0.9"), Schedule::constant(0.02)};
  const Dataset images =
      picture_twin(64).map(image_ops("image").normalize({.layout = Layout::hwc}));
  Trainer trainer(model_kind("resnet18").make, images, std::nullopt, options);
  EXPECT_LT(trainer.run(nobody).losses.back(), 0.05F);
}

TEST(Trainer, MatchesTexts) {
  std::string text = "query,positive,negative\n";
  Rng rng(1, 0, 0);
  for (int i = 0; i < 600; ++i) {
    const std::uint64_t topic = rng.below(20);
    const std::uint64_t other = (topic + 1 + rng.below(19)) % 20;
    const auto word = [&](char kind, std::uint64_t of) {
      return kind + std::to_string(of) + " " + "w" + std::to_string(rng.below(50));
    };
    text += word('q', topic) + "," + word('a', topic) + "," + word('a', other) + "\n";
  }
  const Dataset stored =
      csv({"texts.csv"},
          {{.files = make_memory_file_system({{"texts.csv", text}}), .index_folder = "-"}});
  const ModelKind& kind = model_kind("text_match");
  TrainOptions options = options_for(2, 16);
  options.epochs = 20;
  options.strategy.update = {make_optimizer(kind.optimizer), Schedule::constant(0.01)};
  Trainer trainer(kind.make, kind.input(stored.take(500).shuffle(), true),
                  kind.input(stored.skip(500), false), options);
  const TrainResult result = trainer.run(nobody);
  EXPECT_GT(result.evaluation->accuracy, 0.9);
}

TEST(Trainer, BitsOfARepeatedRun) {
  const auto digest = [](std::uint64_t seed) {
    TrainOptions options = options_for(3, 8);
    options.seed = seed;
    options.epochs = 3;
    Trainer trainer(maker<Hidden>(), points(200).shuffle(), std::nullopt, options);
    return trainer.run(nobody).digest;
  };
  EXPECT_EQ(digest(1), digest(1));
  EXPECT_NE(digest(1), digest(2));
}

TEST(Trainer, StepsOfEpochEnds) {
  const auto steps = [](EpochEnd end) {
    TrainOptions options = options_for(2, 8);
    options.feed.end = end;
    options.epochs = 2;
    Trainer trainer(maker<Linear>(), points(37), points(5), options);
    const TrainResult result = trainer.run(nobody);
    EXPECT_EQ(trainer.planned_steps(), result.steps);
    EXPECT_EQ(result.evaluation->rows, 5) << "a test set that ends in mid-batch";
    return std::pair(result.steps, result.elements);
  };
  EXPECT_EQ(steps(EpochEnd::drop), std::pair(std::uint64_t{4}, std::uint64_t{64}));
  EXPECT_EQ(steps(EpochEnd::pad), std::pair(std::uint64_t{6}, std::uint64_t{74}));
  EXPECT_EQ(steps(EpochEnd::stop), std::pair(std::uint64_t{6}, std::uint64_t{74}));
}

TEST(Trainer, EvaluatesWhenAskedAndTellsInOrder) {
  struct Log final : TrainObserver {
    void on_step(const StepReport& report) override { steps.push_back(report.step); }
    void on_evaluation(const Evaluation& evaluation) override {
      evaluated.push_back(evaluation.step);
    }
    std::vector<std::uint64_t> steps, evaluated;
  } log;
  TrainOptions options = options_for(2, 4);
  options.evaluate_every = 4;
  options.max_steps = 10;
  options.epochs = 3;
  Trainer trainer(maker<Linear>(), points(40), points(10), options);
  trainer.run(log);
  EXPECT_THAT(log.steps, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(log.evaluated, testing::ElementsAre(4, 8, 10));
}

TEST(Trainer, UpdatesOfTowersThatDoNotWait) {
  struct Log final : TrainObserver {
    void on_evaluation(const Evaluation& evaluation) override {
      evaluated.push_back(evaluation.step);
    }
    std::vector<std::uint64_t> evaluated;
  };
  for (const StrategyKind kind : {StrategyKind::async, StrategyKind::sync_replicas}) {
    for (const FeedMode mode : {FeedMode::split, FeedMode::per_tower, FeedMode::sharded}) {
      if (kind == StrategyKind::sync_replicas && mode != FeedMode::per_tower) continue;
      for (const int towers : {2, 4}) {
        for (const int staleness : {-1, 0}) {
          TrainOptions options = options_for(towers, 4);
          options.strategy.kind = kind;
          options.strategy.max_staleness = staleness;
          options.feed.mode = mode;
          options.feed.slots = 1;
          options.evaluate_every = 7;
          options.max_steps = 40;
          options.epochs = 100;
          Trainer trainer(maker<Linear>(), points(100), points(10), options);
          Log log;
          EXPECT_EQ(trainer.run(log).steps, 40U);
          EXPECT_THAT(log.evaluated, testing::ElementsAre(7, 14, 21, 28, 35, 40));
        }
      }
    }
  }
}

TEST(Trainer, StopOfTowersThatDoNotWait) {
  for (const FeedMode mode : {FeedMode::split, FeedMode::per_tower, FeedMode::sharded}) {
    for (const std::uint64_t every : {1U, 5U}) {
      TrainOptions options = options_for(3, 4);
      options.strategy.kind = StrategyKind::async;
      options.feed.mode = mode;
      options.evaluate_every = every;
      options.epochs = 3;
      Trainer trainer(maker<Linear>(), points(100), points(10), options);
      const TrainResult result = trainer.run(nobody);
      EXPECT_EQ(result.steps, 72U);
      EXPECT_EQ(result.elements, 288U);
    }
  }
}

TEST(Trainer, StepsOfEveryTower) {
  for (int run = 0; run < 30; ++run) {
    TrainOptions options = options_for(2, 8);
    options.max_steps = 2;
    Trainer trainer(maker<Linear>(), points(100), std::nullopt, options);
    const TrainResult result = trainer.run(nobody);
    for (const TowerStats& tower : result.feed.towers) {
      ASSERT_EQ(tower.steps, 2U);
      ASSERT_EQ(tower.elements, 16U);
    }
  }
}

TEST(Trainer, StopsAfterTheStepAtHand) {
  TrainOptions options = options_for(2, 4);
  options.epochs = 1'000'000;
  Trainer trainer(maker<Linear>(), points(100), std::nullopt, options);
  struct Stopper final : TrainObserver {
    void on_step(const StepReport& report) override {
      if (report.step == 5) trainer->stop();
    }
    Trainer* trainer = nullptr;
  } stopper;
  stopper.trainer = &trainer;
  EXPECT_LE(trainer.run(stopper).steps, 8U);
}

TEST(Trainer, InvalidOptions) {
  const auto refused = [](const std::function<void(TrainOptions&)>& change,
                          const std::string& text) {
    TrainOptions options = options_for(1, 4);
    change(options);
    const std::optional<Error> error =
        thrown_by([&] { Trainer(maker<Linear>(), points(8), std::nullopt, options); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error->what(), testing::HasSubstr(text));
  };
  refused([](TrainOptions& o) { o.devices.clear(); }, "a device for each tower");
  refused([](TrainOptions& o) { o.batch = 0; }, "at least one row");
  refused([](TrainOptions& o) { o.epochs = 0; }, "at least one epoch");
  refused([](TrainOptions& o) { o.threads = -1; }, "thread");
  refused(
      [](TrainOptions& o) {
        o.strategy.kind = StrategyKind::sync_replicas;
        o.feed.mode = FeedMode::sharded;
      },
      "sync_replicas needs batches that any tower may take");
  refused(
      [](TrainOptions& o) {
        o.batch = 100;
        o.strategy.update.schedule = Schedule::parse("cosine:1");
      },
      "8 records are fewer than a batch of 100");
}

/// The contents of a run's checkpoints, by name.
std::map<std::string, std::string> checkpoints_of(TrainOptions options, int slots) {
  const penstock::test::TempFolder folder;
  options.checkpoint_folder = folder.path();
  options.checkpoints_kept = 100;
  options.feed.run.slots = slots;
  const Dataset data =
      points(320).shuffle({.buffer = 40}).map([](const Element& in) { return in; });
  Trainer(maker<Hidden>(), data, std::nullopt, options).run(nobody);
  return test::checkpoints_in(folder.path());
}

TEST(Trainer, DeterministicCheckpoints) {
  for (const StrategyKind kind : {StrategyKind::replicated, StrategyKind::sync_replicas}) {
    for (const FeedMode mode : {FeedMode::per_tower, FeedMode::split}) {
      if (kind == StrategyKind::sync_replicas && mode != FeedMode::per_tower) continue;
      TrainOptions options = options_for(2, 8);
      options.strategy.kind = kind;
      options.feed.mode = mode;
      options.epochs = 2;
      options.deterministic = true;
      options.checkpoint_every = 3;
      const auto files = checkpoints_of(options, 0);
      EXPECT_EQ(files.size(), 14U);  // of 40 steps
      for (int slots = 1; slots < 4; ++slots)
        EXPECT_TRUE(checkpoints_of(options, slots) == files) << slots;
    }
  }
}

}  // namespace
}  // namespace penstock::towers
