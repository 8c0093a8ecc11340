// Evaluation on a tower of its own, beside the towers that train.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/towers/fake_gpu.h"
#include "tests/towers/twins.h"

namespace penstock::towers {
namespace evaluation_test {

using penstock::test::thrown_by;
using test::Hidden;
using test::maker;
using test::options_for;
using test::points;

struct Told final : TrainObserver {
  void on_evaluation(const Evaluation& evaluation) override { told.push_back(evaluation); }
  std::vector<Evaluation> told;
};

std::pair<std::vector<Evaluation>, TrainResult> run(TrainOptions options) {
  options.evaluate_every = 4;
  options.max_steps = 10;
  options.epochs = 3;
  Trainer trainer(maker<Hidden>(), points(40).shuffle(), points(11), options);
  Told observer;
  const TrainResult result = trainer.run(observer);
  EXPECT_EQ(trainer.evaluate().loss, result.evaluation->loss) << "also when asked for";
  return {observer.told, result};
}

void expect_same(const TrainOptions& beside, const TrainOptions& in_turn) {
  const auto [expected, trained] = run(in_turn);
  const auto [told, trained_too] = run(beside);
  EXPECT_EQ(trained_too.digest, trained.digest) << "evaluation changes nothing";
  ASSERT_EQ(told.size(), expected.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].step, expected[i].step);
    EXPECT_EQ(told[i].rows, 11);
    EXPECT_NEAR(told[i].loss, expected[i].loss, 1e-6);
    EXPECT_EQ(told[i].accuracy, expected[i].accuracy);
  }
  EXPECT_EQ(trained_too.evaluation->step, 10U);
}

TEST(ValidationTower, FindsWhatTowersFindInTurn) {
  const TrainOptions in_turn = options_for(2, 4);
  TrainOptions beside = in_turn;
  beside.validation_device = device({DeviceKind::host, 5});
  expect_same(beside, in_turn);
}

TEST(ValidationTower, ComputesOnAGpuAsTowersDo) {
  TrainOptions in_turn = options_for(2, 4);
  in_turn.libraries = &test::fake_gpu();
  TrainOptions beside = in_turn;
  beside.validation_device = device({DeviceKind::host, 5});
  expect_same(beside, in_turn);
}

TEST(ValidationTower, FailedEvaluation) {
  const Dataset bad = points(11).map(
      [](Element element) -> Element {
        if (element["label"].item<std::int64_t>() >= 0) throw std::runtime_error("bad point");
        return element;
      },
      {.name = "check"});
  TrainOptions options = options_for(1, 4);
  options.validation_device = device({DeviceKind::host, 5});
  const auto error = thrown_by([&] {
    Trainer trainer(maker<Hidden>(), points(40), bad, options);
    TrainObserver nobody;
    trainer.run(nobody);
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::AllOf(testing::HasSubstr("validation tower 0"),
                                            testing::HasSubstr("bad point")));
}

}  // namespace evaluation_test
}  // namespace penstock::towers
