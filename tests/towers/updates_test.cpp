// Optimizers, schedules and clipping.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/towers/optimizer.h>

#include "tests/support/errors.h"
#include "tests/towers/arrays.h"
#include "towers/train/out_of_step.h"
#include "towers/train/updater.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using test::host_store;
using test::list;

/// The value of one variable after updates with these gradients, from 1.
std::vector<float> trace(const std::string& optimizer, const std::vector<float>& gradients,
                         const std::string& schedule = "constant:0.1") {
  VariableStore store = host_store();
  Variable& variable = store.tower(0).get("v", {1}, {Initializer::constant(1)});
  store.pack();
  Updater updater(store.of(0), {make_optimizer(optimizer), Schedule::parse(schedule)});
  std::vector<float> values;
  for (std::size_t step = 0; step < gradients.size(); ++step) {
    variable.gradient.fill(gradients[step]);
    variable.has_gradient = true;
    updater.apply(store.of(0), step);
    values.push_back(variable.value.data()[0]);
  }
  return values;
}

TEST(Optimizers, FollowTheirFormulas) {
  using testing::ElementsAre;
  using testing::FloatNear;
  EXPECT_THAT(trace("sgd", {1, 2}), ElementsAre(FloatNear(0.9F, 1e-6F), FloatNear(0.7F, 1e-6F)));
  EXPECT_THAT(trace("momentum:0.5", {1, 1}),
              ElementsAre(FloatNear(0.9F, 1e-6F), FloatNear(0.75F, 1e-6F)));
  EXPECT_THAT(trace("nesterov:0.5", {1, 1}),
              ElementsAre(FloatNear(0.85F, 1e-6F), FloatNear(0.675F, 1e-6F)));
  // Adam's first step is the rate, whatever the gradient.
  EXPECT_THAT(trace("adam", {5}), ElementsAre(FloatNear(0.9F, 1e-5F)));
  const double mean = (0.9 * 0.1 * 1 + 0.1 * 3) / (1 - 0.81);
  const double square = (0.999 * 0.001 * 1 + 0.001 * 9) / (1 - 0.999 * 0.999);
  EXPECT_NEAR(trace("adam", {1, 3})[1], 0.9 - 0.1 * mean / std::sqrt(square), 1e-5);
}

TEST(Optimizers, RefuseWhatPyTorchRefuses) {
  for (const char* text :
       {"momentum:1", "momentum:-0.1", "nesterov:1.5", "adam:1", "adam:0.9:1", "adam:-1:0.9",
        "adam:0.9:0.999:-1e-8", "adam:0.9:0.999:1e-8:1", "sgd:0.1", "momentum:nan", "adam:inf"})
    penstock::test::expect_error(ErrorCode::invalid_argument, "optimizer",
                                 [&] { make_optimizer(text); });
  EXPECT_EQ(make_optimizer("adam:0:0:0")->describe(), "adam:0:0:0");
}

TEST(Optimizers, LeaveVariablesWithoutGradientAlone) {
  VariableStore store = host_store();
  Variable& with = store.tower(0).get("with", {1}, {});
  Variable& without = store.tower(0).get("without", {1}, {});
  store.pack();
  Updater updater(store.of(0), {make_optimizer("momentum"), Schedule::constant(1)});
  with.gradient.fill(1);
  without.gradient.fill(1);
  with.has_gradient = true;
  updater.apply(store.of(0), 0);
  EXPECT_EQ(with.value.data()[0], -1);
  EXPECT_EQ(without.value.data()[0], 0);
  EXPECT_EQ(updater.slots(1).arrays[0].data()[0], 0);
}

TEST(Optimizers, InvalidTexts) {
  for (const char* text : {"", "sdg", "sgd:1", "momentum:1", "momentum:x", "adam:0.9:2",
                           "adam:1e999", "momentum:0.9:1", "adam:"})
    expect_error(ErrorCode::invalid_argument, "optimizer", [&] { make_optimizer(text); });
}

TEST(Clipping, ScalesAllGradientsTogether) {
  VariableStore store = host_store();
  Variable& a = store.tower(0).get("a", {1}, {});
  Variable& b = store.tower(0).get("b", {1}, {});
  store.pack();
  a.gradient.fill(3);
  b.gradient.fill(4);
  a.has_gradient = b.has_gradient = true;
  EXPECT_DOUBLE_EQ(gradient_norm(store.of(0)), 5);
  Updater loose(store.of(0), {make_optimizer("sgd"), Schedule::constant(1), 5});
  loose.clip(store.of(0), 0);
  EXPECT_EQ(list(a.gradient), std::vector<float>{3});
  Updater tight(store.of(0), {make_optimizer("sgd"), Schedule::constant(1), 1});
  tight.clip(store.of(0), 0);
  EXPECT_NEAR(a.gradient.data()[0], 0.6, 1e-6);
  EXPECT_NEAR(b.gradient.data()[0], 0.8, 1e-6);
}

TEST(UpdatesOutOfStep, LessMomentumForMoreTowers) {
  struct Case {
    std::string optimizer, schedule;
    int towers;
    std::string expected_optimizer, expected_schedule;
  };
  for (const Case& one : {
           Case{"momentum:0.9", "one_cycle:0.05", 1, "momentum:0.9", "one_cycle:0.05"},
           Case{"momentum:0.9", "one_cycle:0.05", 2, "momentum:0.8", "one_cycle:0.05"},
           Case{"nesterov:0.9", "cosine:0.1", 4, "nesterov:0.6", "cosine:0.1"},
           Case{"momentum:0.5", "step:0.5:0.1:30", 2, "sgd", "step:0.5:0.1:30"},
           Case{"momentum:0.75", "one_cycle:0.05:0.2", 8, "sgd", "one_cycle:0.025:0.2"},
           Case{"sgd", "constant:0.1", 8, "sgd", "constant:0.1"},
           Case{"adam", "constant:0.001", 8, "adam", "constant:0.001"},
       }) {
    ModelKind kind;
    kind.optimizer = one.optimizer;
    kind.schedule = one.schedule;
    const UpdateTexts texts = updates_out_of_step(kind, one.towers);
    EXPECT_EQ(texts.optimizer, one.expected_optimizer) << one.towers;
    EXPECT_EQ(texts.schedule, one.expected_schedule) << one.towers;
  }
}

TEST(Schedules, FollowTheirFormulas) {
  const Schedule step = Schedule::parse("step:1:0.5:10");
  EXPECT_DOUBLE_EQ(step.at(9), 1);
  EXPECT_DOUBLE_EQ(step.at(10), 0.5);
  EXPECT_DOUBLE_EQ(step.at(25), 0.25);
  const Schedule cosine = Schedule::parse("cosine:2").over(100);
  EXPECT_DOUBLE_EQ(cosine.at(0), 2);
  EXPECT_NEAR(cosine.at(50), 1, 1e-12);
  EXPECT_GT(cosine.at(99), 0);
  // torch.optim.lr_scheduler.OneCycleLR(max_lr=0.05, total_steps=10).
  const Schedule cycle = Schedule::parse("one_cycle:0.05").over(10);
  EXPECT_NEAR(cycle.at(0), 0.002, 1e-9);
  EXPECT_NEAR(cycle.at(2), 0.05, 1e-9);
  EXPECT_NEAR(cycle.at(9), 2e-7, 1e-9);
  EXPECT_NEAR(cycle.at(500), 2e-7, 1e-9);
  EXPECT_TRUE(cycle.needs_total());
  EXPECT_FALSE(step.needs_total());
  for (std::uint64_t total : {1, 2, 3}) {
    for (std::uint64_t at = 0; at < 5; ++at) {
      const double rate = Schedule::parse("one_cycle:0.05").over(total).at(at);
      EXPECT_TRUE(rate >= 0 && rate <= 0.05 + 1e-12) << total << ' ' << at << ' ' << rate;
    }
  }
}

TEST(Schedules, InvalidTexts) {
  for (const char* text : {"", "constant", "constant:-1", "constant:nan", "step:1:0.5",
                           "step:1:0.5:0", "one_cycle:0.1:1", "cosine:1:2", "linear:1"})
    expect_error(ErrorCode::invalid_argument, "schedule", [&] { Schedule::parse(text); });
}

}  // namespace
}  // namespace penstock::towers
