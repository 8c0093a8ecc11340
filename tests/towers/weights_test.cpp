// What rows weigh, while training and in evaluations.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/towers/class_weights.h>
#include <penstock/towers/model.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/towers/fake_gpu.h"
#include "tests/towers/twins.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using penstock::test::TempFolder;
using test::Linear;
using test::maker;
using test::options_for;
using test::points;

const std::vector<ClassWeight> kWeights{{"0", 2}, {"2", 0.5}};

/// The same weights as a component.
Dataset weighted_points(std::int64_t count) {
  return points(count).map(
      [](const Element& in) -> float {
        const auto label = in["label"].item<std::int64_t>();
        return label == 0 ? 2.0F : label == 1 ? 1.0F : 0.5F;
      },
      {.name = "weights", .adds = {{kWeight, DType::f32, {}}}});
}

TrainResult train(const Dataset& data, TrainOptions options) {
  options.epochs = 2;
  options.strategy.update = {make_optimizer("sgd"), Schedule::constant(0.1)};
  Trainer trainer(maker<Linear>(), data, data, options);
  TrainObserver nobody;
  return trainer.run(nobody);
}

TEST(Weights, OfClassesAreThoseOfTheirRows) {
  TrainOptions options = options_for(2, 4);
  const TrainResult plain = train(points(40), options);
  const TrainResult of_rows = train(weighted_points(40), options);
  options.class_weights = kWeights;
  const TrainResult of_classes = train(points(40), options);
  EXPECT_EQ(of_classes.digest, of_rows.digest);
  EXPECT_EQ(of_classes.losses, of_rows.losses);
  EXPECT_EQ(of_classes.evaluation->loss, of_rows.evaluation->loss);
  EXPECT_EQ(of_classes.evaluation->auc, of_rows.evaluation->auc);
  EXPECT_NE(of_classes.digest, plain.digest);
  EXPECT_NE(of_classes.evaluation->accuracy, plain.evaluation->accuracy);
}

TEST(Weights, LeaveUpdatesTheSameOnAnyNumberOfTowers) {
  TrainOptions one = options_for(1, 8);
  TrainOptions two = options_for(2, 4);
  for (TrainOptions* options : {&one, &two}) {
    options->class_weights = kWeights;
    options->feed.mode = FeedMode::split;
  }
  const TrainResult of_one = train(points(40), one);
  const TrainResult of_two = train(points(40), two);
  EXPECT_NEAR(of_one.evaluation->loss, of_two.evaluation->loss, 1e-6);
  EXPECT_NEAR(of_one.evaluation->accuracy, of_two.evaluation->accuracy, 1e-12);
}

TEST(Weights, OnAGpuAreThoseOfTheHost) {
  TrainOptions options = options_for(2, 4);
  options.class_weights = kWeights;
  const TrainResult host = train(points(41), options);
  options.libraries = &test::fake_gpu();
  const TrainResult gpu = train(points(41), options);
  EXPECT_NEAR(gpu.evaluation->loss, host.evaluation->loss, 1e-5);
  EXPECT_NEAR(gpu.evaluation->accuracy, host.evaluation->accuracy, 1e-9);
  EXPECT_NEAR(gpu.evaluation->auc.value(), host.evaluation->auc.value(), 1e-9);
  EXPECT_NEAR(gpu.evaluation->recall.value(), host.evaluation->recall.value(), 1e-9);
  options.strategy.kind = StrategyKind::model_parallel;  // of one layer, so that all is on one
  options.devices.resize(1);
  const TrainResult spread = train(points(41), options);
  EXPECT_TRUE(std::isfinite(spread.evaluation->loss));
}

TEST(Weights, OfNothingMakeRowsDoNothing) {
  TrainOptions options = options_for(1, 4);
  options.class_weights = {{"0", 0}, {"1", 0}};
  const Dataset all = points(40);
  const TrainResult found = train(all, options);
  EXPECT_EQ(found.evaluation->recall, found.evaluation->classes[2].recall.value() / 3)
      << "of the others no row counts";
  EXPECT_EQ(found.evaluation->rows, 40);
}

TEST(Weights, InvalidWeights) {
  TrainOptions options = options_for(1, 4);
  for (const double wrong : {-1.0, std::nan("")}) {
    options.class_weights = {{"1", wrong}};
    expect_error(ErrorCode::mismatch, "is not a weight", [&] { train(points(40), options); });
  }
  options.class_weights = {{"cat", 1}};
  expect_error(ErrorCode::invalid_argument, "a weight for class cat",
               [&] { train(points(40), options); });
  expect_error(ErrorCode::invalid_argument, "a weight for class dog, which does not exist", [] {
    labelled(points(4), {"cat"}, {{"dog", 1}}, "the data");
  });
  expect_error(ErrorCode::invalid_argument, "have no labels", [] {
    labelled(range(4), {}, {{"0", 1}}, "the data");
  });
}

TEST(Weights, AreTheRunsThatGoesOn) {
  const TempFolder folder;
  TrainOptions options = options_for(1, 4);
  options.max_steps = 3;
  options.checkpoint_folder = folder.path();
  options.class_weights = kWeights;
  train(points(40), options);
  options.max_steps = 6;
  EXPECT_EQ(train(points(40), options).resumed_at, 3U);
  options.class_weights = {{"0", 3}};
  expect_error(ErrorCode::invalid_argument, "weight of classes is 0 2, 2 0.5, not 0 3",
               [&] { train(points(40), options); });
  options.class_weights = {};
  expect_error(ErrorCode::invalid_argument, "which this run does not have",
               [&] { train(points(40), options); });
}

}  // namespace
}  // namespace penstock::towers
