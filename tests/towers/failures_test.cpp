// What goes wrong in a run of training, with towers on host devices and with towers as on GPUs.
#include <algorithm>
#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/towers/fake_gpu.h"
#include "tests/towers/twins.h"

namespace penstock::towers {
namespace failures_test {

using penstock::test::thrown_by;
using test::Hidden;
using test::Linear;
using test::maker;
using test::points;

TrainObserver nobody;

enum class Place { host, fake };

class Failures : public testing::TestWithParam<Place> {
 protected:
  static TrainOptions options_for(int towers, std::int64_t batch) {
    TrainOptions options = test::options_for(towers, batch);
    if (GetParam() == Place::fake) options.libraries = &test::fake_gpu();
    return options;
  }
  /// What ends a run.
  static std::optional<Error> outcome(const ModelMaker& make, const Dataset& data,
                                      const TrainOptions& options) {
    return thrown_by([&] { Trainer(make, data, points(10), options).run(nobody); });
  }
};

INSTANTIATE_TEST_SUITE_P(Places, Failures, testing::Values(Place::host, Place::fake),
                         [](const auto& made) {
                           return std::string(made.param == Place::host ? "host" : "fake");
                         });

/// Throws in the third backward pass of tower 1.
class Fragile final : public Layer {
 public:
  explicit Fragile(LayerPtr inner) : inner_(std::move(inner)) {}
  const Array& forward(const Array& in, const Pass& pass) override {
    return inner_->forward(in, pass);
  }
  const Array& backward(const Array& gradient, const Pass& pass) override {
    if (pass.tower == 1 && ++passes_ == 3)
      throw Error(ErrorCode::resource_exhausted, "no memory for 12 bytes");
    return inner_->backward(gradient, pass);
  }

 private:
  const LayerPtr inner_;
  int passes_ = 0;
};

/// Two layers of which one breaks: before any gradient was told, or in the middle.
template <bool Last>
class Breaks : public Classifier {
 public:
  explicit Breaks(const Scope& scope) {
    const auto layer = [](const char* name, std::int64_t in, std::int64_t out, bool broken) {
      return [=](const Scope& s) {
        LayerPtr made = dense(s / name, {.in = in, .out = out, .initializer = Initializer::he(in)});
        return broken ? std::make_unique<Fragile>(std::move(made)) : std::move(made);
      };
    };
    build(scope, {layer("a", 4, 8, !Last), layer("b", 8, 3, Last)});
  }
};

TEST_P(Failures, TowerThatThrows) {
  for (const StrategyKind kind :
       {StrategyKind::replicated, StrategyKind::parameter_device, StrategyKind::spread,
        StrategyKind::async, StrategyKind::sync_replicas}) {
    for (const ModelMaker& make : {maker<Breaks<true>>(), maker<Breaks<false>>()}) {
      TrainOptions options = options_for(3, 4);
      options.strategy.kind = kind;
      options.strategy.bucket_bytes = 1;
      options.epochs = 50;
      const std::optional<Error> error = outcome(make, points(100), options);
      ASSERT_TRUE(error) << name_of(kind);
      EXPECT_EQ(error->code(), ErrorCode::resource_exhausted);
      EXPECT_THAT(error->what(), testing::HasSubstr("tower 1: no memory for 12 bytes"));
    }
  }
}

TEST_P(Failures, LossThatIsNoNumber) {
  TrainOptions options = options_for(2, 4);
  options.strategy.update.schedule = Schedule::constant(1e38);
  options.epochs = 20;
  const std::optional<Error> error = outcome(maker<Hidden>(), points(100), options);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::diverged);
  EXPECT_THAT(error->what(), testing::HasSubstr("the loss is not a number at step"));
}

TEST_P(Failures, CountOfDivergedSteps) {
  TrainOptions options = options_for(2, 4);
  options.strategy.update.schedule = Schedule::constant(1e38);
  options.strategy.update.stop_if_diverged = false;
  options.epochs = 2;
  const TrainResult result = Trainer(maker<Hidden>(), points(100), points(10), options).run(nobody);
  const auto bad =
      std::ranges::count_if(result.losses, [](float loss) { return !(std::abs(loss) <= 1e18F); });
  EXPECT_GT(bad, 0);
  EXPECT_EQ(result.diverged_steps, static_cast<std::uint64_t>(bad));
}

/// Of a constant loss.
class Constant final : public Model {
 public:
  explicit Constant(double loss) : loss_(loss) {}
  Loss forward(const Batch& batch, const Pass& /*pass*/) override {
    const std::int64_t rows = batch.valid_rows();
    return {loss_ * static_cast<double>(rows), 0, 0, rows};
  }
  void backward(const Pass& /*pass*/) override {}

 private:
  const double loss_;
};

TEST(Losses, BeyondTheBoundAreAnErrorThatNamesStepAndTower) {
  for (const double loss : {1e37, -1e37, 2e18}) {
    const auto make = [loss](const Scope& scope) -> ModelPtr {
      scope.get("v", {1}, {});
      return std::make_unique<Constant>(loss);
    };
    const std::optional<Error> error = thrown_by([&] {
      Trainer trainer(make, points(64), std::nullopt, test::options_for(1, 4));
      trainer.run(nobody);
    });
    ASSERT_TRUE(error) << loss;
    EXPECT_EQ(error->code(), ErrorCode::diverged);
    EXPECT_THAT(error->what(), testing::AllOf(testing::HasSubstr("tower 0: the loss is "),
                                              testing::HasSubstr(", beyond 1e+18, at step 0")));
  }
  const auto make = [](const Scope& scope) -> ModelPtr {
    scope.get("v", {1}, {});
    return std::make_unique<Constant>(1e17);
  };
  Trainer trainer(make, points(64), std::nullopt, test::options_for(1, 4));
  EXPECT_EQ(trainer.run(nobody).steps, 16U);
}

TEST_P(Failures, LabelOutOfRange) {
  const Dataset bad = points(64).map(
      [](Element element) {
        Element out{{"image", element["image"]},
                    {"label", Tensor::of<std::int64_t>({}, std::vector<std::int64_t>{7})}};
        return out;
      },
      {.name = "label"});
  const std::optional<Error> error = outcome(maker<Linear>(), bad, options_for(1, 4));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::mismatch);
  EXPECT_THAT(error->what(), testing::HasSubstr(GetParam() == Place::host
                                                    ? "label 7 in row 0 is not one of 3 classes"
                                                    : "in the batch of step 0"));
}

TEST_P(Failures, BadElement) {
  const Dataset data = points(64).map(
      [](Element element) {
        if (element["label"].item<std::int64_t>() == 2) throw std::runtime_error("bad point");
        return element;
      },
      {.name = "check"});
  const std::optional<Error> error = outcome(maker<Linear>(), data, options_for(2, 4));
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(),
              testing::AllOf(testing::HasSubstr("bad point"), testing::HasSubstr("check")));
}

TEST_P(Failures, FailedDevices) {
  struct Case {
    const char* devices;
    ErrorCode code;
  };
  for (const auto& [list, code] :
       {Case{"host:0,host:1:fail_record=60:sticky", ErrorCode::device_lost},
        Case{"host:0,host:1:fail_allocation=1", ErrorCode::resource_exhausted},
        Case{"host:0:hang_copy=9,host:1", ErrorCode::no_progress}}) {
    // The fakes' streams are the devices' own, so that a hang is theirs too.
    if (GetParam() == Place::fake && code == ErrorCode::no_progress) continue;
    TrainOptions options = options_for(1, 4);
    options.devices = devices(list);
    options.epochs = 200;
    // Short only for the device that hangs: else a slow machine may end the others so.
    options.feed.watchdog_s = code == ErrorCode::no_progress ? 0.2 : 60;
    const std::optional<Error> error = outcome(maker<Linear>(), points(100), options);
    ASSERT_TRUE(error) << list;
    EXPECT_EQ(error->code(), code) << error->what();
  }
}

TEST(GpuFailures, FailedExchange) {
  TrainOptions options = test::options_for(2, 4);
  options.libraries = &test::fake_gpu();
  options.epochs = 50;
  Trainer trainer(maker<Linear>(), points(100), std::nullopt, options);
  test::set_nccl_trouble({.reports = 1});
  const auto error = thrown_by([&] { trainer.run(nobody); });
  test::set_nccl_trouble({});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::unavailable);
  EXPECT_THAT(error->what(), testing::HasSubstr("NCCL rank 1 (host:1) reported"));
}

/// Lets an exchange fail in the middle of a run.
struct FailsAtStep5 final : TrainObserver {
  explicit FailsAtStep5(const test::NcclTrouble& of) : trouble(of) {}
  void on_step(const StepReport& report) override {
    if (report.step == 5) test::set_nccl_trouble(trouble);
  }
  test::NcclTrouble trouble;
};

TEST(GpuFailures, RehearsalOfTwoFourAndEightDevices) {
  for (const int devices : {2, 4, 8}) {
    TrainOptions options = test::options_for(devices, 2);
    options.libraries = &test::fake_gpu();
    options.deterministic = true;
    options.epochs = 4;
    options.max_steps = 12;
    options.strategy.update = {make_optimizer("momentum:0.9"), Schedule::constant(0.01)};
    const auto trained = [&](TrainObserver& observer) {
      return Trainer(maker<Hidden>(), points(200).shuffle(), std::nullopt, options).run(observer);
    };
    const TrainResult whole = trained(nobody);
    EXPECT_EQ(whole.steps, 12U);
    const int last = devices - 1;
    const std::string rank = "rank " + std::to_string(last);
    struct Way {
      test::NcclTrouble trouble;
      ErrorCode code;
      std::string names;
      double timeout_s;
    };
    for (const Way& way : {Way{{.refuses = last}, ErrorCode::unavailable, rank, 60},
                           Way{{.reports = last}, ErrorCode::unavailable, rank, 60},
                           Way{{.hangs = last}, ErrorCode::no_progress, "in 0.5", 0.5}}) {
      SCOPED_TRACE(std::to_string(devices) + " devices, " + way.names);
      const penstock::test::TempFolder scratch;
      options.checkpoint_folder = scratch / "checkpoints";
      options.checkpoint_every = 2;
      options.strategy.timeout_s = way.timeout_s;
      FailsAtStep5 fails(way.trouble);
      const std::optional<Error> error = thrown_by([&] { trained(fails); });
      test::set_nccl_trouble({});
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), way.code) << error->what();
      EXPECT_THAT(error->what(), testing::HasSubstr(way.names));
      EXPECT_EQ(test::nccl_communicators(), 0);
      options.strategy.timeout_s = 60;
      const TrainResult rest = trained(nobody);
      // A slow machine may time out before.
      EXPECT_GE(rest.resumed_at, way.code == ErrorCode::no_progress ? 0U : 4U);
      EXPECT_EQ(rest.digest, whole.digest);
      options.checkpoint_folder.clear();
    }
  }
}

}  // namespace failures_test
}  // namespace penstock::towers
