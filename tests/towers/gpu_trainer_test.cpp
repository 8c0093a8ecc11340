// Whole runs of training on towers as on GPUs, beside the same on the host.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/towers/layers/batch_norm.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/towers/arrays.h"
#include "tests/towers/fake_gpu.h"
#include "tests/towers/twins.h"

/// examples/own_device.cpp.
penstock::DevicePtr make_threads_device(int index);

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using penstock::test::thrown_by;
using test::expect_near;
using test::fake_gpu;
using test::Hidden;
using test::Linear;
using test::maker;
using test::options_for;
using test::points;

TrainOptions on_fakes(int towers, std::int64_t batch) {
  TrainOptions options = options_for(towers, batch);
  options.libraries = &fake_gpu();
  return options;
}

TrainObserver nobody;

TEST(GpuTrainer, EveryStrategy) {
  for (const StrategyKind kind :
       {StrategyKind::replicated, StrategyKind::parameter_device, StrategyKind::spread}) {
    for (const char* optimizer : {"sgd", "momentum:0.9", "adam"}) {
      SCOPED_TRACE(std::string(name_of(kind)) + " " + optimizer);
      const auto trained = [&](const GpuLibraries* libraries) {
        TrainOptions options = options_for(2, 8);
        options.libraries = libraries;
        options.epochs = 2;
        options.strategy.kind = kind;
        options.strategy.update = {make_optimizer(optimizer), Schedule::constant(0.01), 0.5F};
        Trainer trainer(maker<Hidden>(), points(100).shuffle(), points(30), options);
        const TrainResult result = trainer.run(nobody);
        std::vector<float> values;
        for (int tower = 0; tower < 2; ++tower) {
          const auto all = trainer.variables().values(tower);
          values.insert(values.end(), all.begin(), all.end());
        }
        return std::tuple(values, result.losses, *result.evaluation, result.steps);
      };
      const auto [values, losses, evaluation, steps] = trained(nullptr);
      const auto [values_there, losses_there, evaluation_there, steps_there] = trained(&fake_gpu());
      EXPECT_EQ(steps_there, steps);
      expect_near(values_there, values, 1e-4, "variables");
      expect_near(losses_there, losses, 1e-4, "losses");
      EXPECT_NEAR(evaluation_there.loss, evaluation.loss, 1e-4);
      EXPECT_EQ(evaluation_there.rows, 30);
      EXPECT_EQ(evaluation_there.accuracy, evaluation.accuracy);
    }
  }
}

/// Every kind of layer that exchanges something, or whose gradient comes late or never.
class Mixed : public Classifier {
 public:
  explicit Mixed(const Scope& scope) {
    Variable& first = (scope / "a").get("unused", {3}, {Initializer::constant(1)});
    static_cast<void>(first);
    build(scope, {[](const Scope& s) {
                    return dense(s / "a", {.in = 4, .out = 8, .initializer = Initializer::he(4)});
                  },
                  [](const Scope& s) {
                    return batch_norm(s / "n", {.channels = 8, .synchronised = true});
                  },
                  relu,
                  [](const Scope& s) {
                    return dense(s / "b", {.in = 8, .out = 3, .initializer = Initializer::he(8)});
                  }});
    decay_.add((scope / "b").reuse().get("weights", {3, 8}, {}), 0.01F);
  }
};

TEST(GpuTrainer, BitsOfBuckets) {
  for (const GpuLibraries* libraries : {static_cast<const GpuLibraries*>(nullptr), &fake_gpu()}) {
    for (const StrategyKind kind : {StrategyKind::replicated, StrategyKind::spread}) {
      const auto digest = [&](std::size_t bucket) {
        TrainOptions options = options_for(3, 5);
        options.libraries = libraries;
        options.epochs = 3;
        options.feed.end = EpochEnd::stop;  // ends in batches of different sizes
        options.strategy.kind = kind;
        options.strategy.bucket_bytes = bucket;
        options.strategy.update = {make_optimizer("momentum:0.9"), Schedule::constant(0.01), 0.5F};
        Trainer trainer(maker<Mixed>(), points(100).shuffle(), std::nullopt, options);
        const TrainResult result = trainer.run(nobody);
        EXPECT_EQ(result.elements, 300U);
        return result.digest;
      };
      const std::uint64_t whole = digest(1 << 20);
      for (const std::size_t bucket : {std::size_t{0}, std::size_t{64}, std::size_t{300}})
        EXPECT_EQ(digest(bucket), whole) << bucket;
    }
  }
}

TEST(GpuTrainer, NetworkOverSeveralGpus) {
  const auto trained = [&](int devices, StrategyKind kind, const std::string& checkpoints = "",
                           std::uint64_t steps = 0) {
    TrainOptions options = on_fakes(devices, 16);
    options.epochs = 2;
    options.max_steps = steps;
    options.deterministic = true;
    options.checkpoint_folder = checkpoints;
    options.strategy.kind = kind;
    options.strategy.update = {make_optimizer("momentum:0.9"), Schedule::constant(0.1), 0.2F};
    Trainer trainer(maker<Mixed>(), points(100).shuffle(), points(30), options);
    const TrainResult result = trainer.run(nobody);
    return std::tuple(result.digest, result.losses, result.evaluation->loss,
                      result.evaluation->accuracy);
  };
  const auto one = trained(1, StrategyKind::replicated);
  EXPECT_EQ(std::get<1>(one).size(), 12U);
  for (const int devices : {1, 2, 3, 4}) {
    const auto divided = trained(devices, StrategyKind::model_parallel);
    expect_near(std::get<1>(divided), std::get<1>(one), 1e-6, "losses");
    EXPECT_NEAR(std::get<2>(divided), std::get<2>(one), 1e-6);
    EXPECT_EQ(std::get<3>(divided), std::get<3>(one));
  }
  const penstock::test::TempFolder scratch;
  const std::string folder = scratch / "checkpoints";
  trained(3, StrategyKind::model_parallel, folder, 5);
  EXPECT_EQ(std::get<0>(trained(3, StrategyKind::model_parallel, folder)),
            std::get<0>(trained(3, StrategyKind::model_parallel)));
  EXPECT_THAT(penstock::test::thrown_by([&] { trained(5, StrategyKind::model_parallel); })->what(),
              testing::HasSubstr("4 layers can't be divided among 5 devices"));
}

TEST(GpuTrainer, ModelsThatDoNotDivideThemselves) {
  TrainOptions options = on_fakes(2, 4);
  options.strategy.kind = StrategyKind::model_parallel;
  expect_error(ErrorCode::invalid_argument, "this model can't be divided among devices",
               [&] { Trainer(model_kind("text_match").make, points(8), std::nullopt, options); });
}

TEST(GpuTrainer, TowersThatDoNotWait) {
  for (const StrategyKind kind : {StrategyKind::async, StrategyKind::sync_replicas}) {
    TrainOptions options = on_fakes(2, 16);
    options.epochs = 12;
    options.strategy.kind = kind;
    options.strategy.max_staleness = 4;  // else it depends on the scheduler how well async learns
    options.strategy.update = {make_optimizer("momentum:0.9"), Schedule::parse("cosine:0.1")};
    Trainer trainer(maker<Linear>(), points(640).shuffle(), points(200), options);
    EXPECT_GT(trainer.run(nobody).evaluation->accuracy, 0.95) << name_of(kind);
  }
}

TEST(GpuTrainer, CifarNetwork) {
  const ModelKind& kind = model_kind("cifar10");
  const auto losses = [&](const GpuLibraries* libraries, Precision precision) {
    TrainOptions options = options_for(1, 2);
    options.libraries = libraries;
    options.precision = precision;
    options.max_steps = 2;
    Trainer trainer(kind.make, kind.input(test::picture_twin(10), true), std::nullopt, options);
    return trainer.run(nobody).losses;
  };
  const std::vector<float> expected = losses(nullptr, Precision::f32);
  ASSERT_EQ(expected.size(), 2U);
  expect_near(losses(&fake_gpu(), Precision::f32), expected, 1e-5, "f32");
  expect_near(losses(&fake_gpu(), Precision::bf16), expected, 0.02, "bf16");
}

TEST(GpuTrainer, GoesOnFromACheckpoint) {
  const penstock::test::TempFolder scratch;
  const std::string folder = scratch / "checkpoints";
  const auto trained = [&](std::uint64_t steps, const std::string& checkpoints) {
    TrainOptions options = on_fakes(2, 8);
    options.deterministic = true;
    options.epochs = 4;
    options.max_steps = steps;
    options.checkpoint_folder = checkpoints;
    options.strategy.update = {make_optimizer("adam"), Schedule::constant(0.01)};
    Trainer trainer(maker<Hidden>(), points(100).shuffle(), std::nullopt, options);
    return trainer.run(nobody);
  };
  const TrainResult whole = trained(20, "");
  trained(9, folder);
  const TrainResult rest = trained(20, folder);
  EXPECT_EQ(rest.resumed_at, 9U);
  EXPECT_EQ(rest.digest, whole.digest);
}

TEST(GpuTrainer, UnsupportedOptions) {
  const auto refused = [](TrainOptions options, const std::string& text) {
    expect_error(ErrorCode::invalid_argument, text,
                 [&] { Trainer(maker<Linear>(), points(8), std::nullopt, options); });
  };
  TrainOptions options = on_fakes(1, 4);
  options.strategy.kind = StrategyKind::async;
  options.deterministic = true;
  refused(options, "not deterministic");
  options = options_for(1, 4);
  options.precision = Precision::bf16;
  refused(options, "towers on host devices compute in f32");
  options = options_for(1, 4);
  options.devices = {make_threads_device(0)};
  refused(options, "a network computes only on host and cuda devices");
}

}  // namespace
}  // namespace penstock::towers
