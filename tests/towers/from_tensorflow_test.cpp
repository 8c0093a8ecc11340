// What docs/from-tensorflow.md puts in the place of TensorFlow's queues and ways to update gives
// what they gave. The values are TensorFlow's: tests/golden/queues_tensorflow.py.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/sources.h>
#include <penstock/towers/classifier.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/trainer.h>

#include "tests/support/places.h"
#include "tests/support/time_limit.h"

namespace penstock::towers {
namespace from_tensorflow_test {

using penstock::test::TimeLimit;

std::vector<float> golden(const std::string& name) {
  std::ifstream in(penstock::test::source_dir() + "/tests/golden/queues_tensorflow.txt");
  std::vector<float> values;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name + ": ")) continue;
    std::istringstream words(line.substr(name.size() + 2));
    for (float value = 0; words >> value;) values.push_back(value);
  }
  EXPECT_FALSE(values.empty()) << name;
  return values;
}

struct Taken {
  std::vector<float> sizes, values;
};

Taken take(const Dataset& batches, const RunOptions& options) {
  Taken taken;
  Iterator run = batches.iterate(options);
  do {
    for (const Element& batch : run) {
      const auto values = batch["value"].values<std::int64_t>();
      taken.sizes.push_back(static_cast<float>(values.size()));
      for (const std::int64_t value : values) taken.values.push_back(static_cast<float>(value));
    }
  } while (run.next_epoch());
  return taken;
}

TEST(FromTensorFlow, BatchesOfTrainBatch) {
  const Taken full = take(range(10).batch(4, {.drop_remainder = true}), {});
  EXPECT_EQ(full.sizes, golden("batch.sizes"));
  EXPECT_EQ(full.values, golden("batch"));
  const Taken all = take(range(10).batch(4), {});
  EXPECT_EQ(all.sizes, golden("batch_smaller_final.sizes"));
  EXPECT_EQ(all.values, golden("batch_smaller_final"));
}

TEST(FromTensorFlow, BatchesOfShuffleBatch) {
  Taken taken =
      take(range(10).repeat(2).shuffle({.buffer = 8}).batch(4, {.drop_remainder = true}), {});
  EXPECT_EQ(taken.sizes, golden("shuffle_batch.sizes"));
  std::ranges::sort(taken.values);
  EXPECT_EQ(taken.values, golden("shuffle_batch.sorted"));
}

constexpr int kTowers = 2, kBatch = 4, kSteps = 20;

/// {image: f32 [1,1,4], label}: as the script makes them.
Dataset points() {
  constexpr std::int64_t count = kTowers * kBatch * kSteps;
  std::vector<float> features;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    for (const float k : {0.3F, 0.7F, 1.1F, 1.9F})
      features.push_back(
          static_cast<float>(std::sin(static_cast<double>(static_cast<float>(i) * k))));
    labels.push_back(std::max_element(features.end() - 4, features.end() - 1) -
                     (features.end() - 4));
  }
  return tensors({{"image", Tensor::of<float>({count, 1, 1, 4}, features)},
                  {"label", Tensor::of<std::int64_t>({count}, labels)}});
}

class Regression : public Classifier {
 public:
  explicit Regression(const Scope& scope) {
    build(scope, {[](const Scope& s) { return dense(s, {.in = 4, .out = 3}); }});
  }
};

struct Case {
  std::string there;
  StrategyKind here;
  std::string optimizer;
};

class Updates : public testing::TestWithParam<Case> {};

TEST_P(Updates, EndWithTensorFlowsVariables) {
  const TimeLimit limit(60);
  TrainOptions options;
  for (int t = 0; t < kTowers; ++t) options.devices.push_back(device({DeviceKind::host, t}));
  options.batch = kBatch;
  options.threads = 1;
  // Batches of sync_replicas go to whoever has room first: with one slot two are an update's.
  options.feed.slots = 1;
  options.strategy.kind = GetParam().here;
  options.strategy.update = {make_optimizer(GetParam().optimizer), Schedule::constant(0.1)};
  Trainer trainer([](const Scope& scope) { return std::make_unique<Regression>(scope); }, points(),
                  std::nullopt, options);
  TrainObserver nobody;
  EXPECT_EQ(trainer.run(nobody).steps, static_cast<std::uint64_t>(kSteps));
  for (const Variable* variable : trainer.variables().of(0)) {
    const std::vector<float> expected = golden(GetParam().there + "." + variable->name);
    const std::span<const float> got = variable->value.values();
    ASSERT_EQ(got.size(), expected.size()) << variable->name;
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], 2e-6) << variable->name << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Updates,
    testing::Values(Case{"parameter_server", StrategyKind::parameter_device, "momentum:0.9"},
                    Case{"replicated", StrategyKind::replicated, "momentum:0.9"},
                    Case{"replicated", StrategyKind::spread, "momentum:0.9"},
                    Case{"sync_replicas", StrategyKind::sync_replicas, "sgd"}),
    [](const auto& row) { return std::string(name_of(row.param.here)); });

}  // namespace from_tensorflow_test
}  // namespace penstock::towers
