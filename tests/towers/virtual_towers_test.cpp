// Virtual towers: the same variables, to the bit, however many devices share them out.
#include <atomic>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/towers/layers/batch_norm.h>
#include <penstock/towers/trainer.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/time_limit.h"
#include "tests/towers/twins.h"

namespace penstock::towers {
namespace virtual_towers_test {

using penstock::test::expect_error;
using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using test::maker;
using test::options_for;
using test::points;

TrainObserver nobody;

/// All that may depend on which tower has a row: statistics of a tower and of all, and dropout.
class Fussy : public Classifier {
 public:
  explicit Fussy(const Scope& scope) {
    build(scope, {[](const Scope& s) {
                    return dense(s / "a", {.in = 4, .out = 16, .initializer = Initializer::he(4)});
                  },
                  [](const Scope& s) { return batch_norm(s / "own", {.channels = 16}); }, relu,
                  [](const Scope& s) { return dropout(s / "drop", 0.25F); },
                  [](const Scope& s) {
                    return batch_norm(s / "all", {.channels = 16, .synchronised = true});
                  },
                  [](const Scope& s) {
                    return dense(s / "b", {.in = 16, .out = 3, .initializer = Initializer::he(16)});
                  }});
  }
};

TrainOptions options_of(int towers, int devices) {
  TrainOptions options = options_for(devices, 4);
  options.virtual_towers = towers;
  options.deterministic = true;
  options.epochs = 3;
  options.strategy.timeout_s = 30;
  options.strategy.update = {make_optimizer("adam"), Schedule::parse("cosine:0.01")};
  return options;
}

TrainResult train(const TrainOptions& options) {
  Trainer trainer(maker<Fussy>(), points(203).shuffle(), points(50), options);
  return trainer.run(nobody);
}

class VirtualTowers : public testing::TestWithParam<std::pair<StrategyKind, FeedMode>> {
 protected:
  TrainOptions options(int towers, int devices) const {
    TrainOptions options = options_of(towers, devices);
    options.strategy.kind = GetParam().first;
    options.feed.mode = GetParam().second;
    options.feed.end = EpochEnd::stop;  // steps with batches of different sizes
    return options;
  }
};

TEST_P(VirtualTowers, BitsOfAnyNumberOfDevices) {
  const TimeLimit limit(100);
  for (const int towers : {4, 6, 8}) {
    const TrainResult all = train(options(towers, towers));
    EXPECT_GT(all.steps, 12U);
    for (int devices = 1; devices < towers; ++devices) {
      if (towers % devices != 0) continue;
      const TrainResult some = train(options(towers, devices));
      EXPECT_EQ(some.digest, all.digest) << towers << " on " << devices;
      EXPECT_EQ(some.losses, all.losses) << towers << " on " << devices;
      EXPECT_EQ(some.elements, all.elements);
      EXPECT_EQ(some.feed.towers.size(), static_cast<std::size_t>(towers));
    }
  }
  EXPECT_NE(train(options(4, 4)).digest, train(options(8, 8)).digest);
}

TEST_P(VirtualTowers, NumberInTheCheckpoint) {
  const TimeLimit limit(100);
  const TrainResult straight = train(options(0, 4));
  const TempFolder folder;
  std::uint64_t before = 0;
  TrainResult last;
  for (const auto& [devices, until] :
       {std::pair(4, 5), std::pair(2, 14), std::pair(1, 20), std::pair(4, 0)}) {
    TrainOptions part = options(0, devices);
    part.checkpoint_folder = folder.path();
    part.max_steps = static_cast<std::uint64_t>(until);
    // The schedule is that of the whole run.
    part.strategy.update.schedule = Schedule::constant(0.01);
    last = train(part);
    EXPECT_EQ(last.resumed_at, before);
    before = last.steps;
  }
  TrainOptions whole = options(0, 4);
  whole.strategy.update.schedule = Schedule::constant(0.01);
  EXPECT_EQ(last.digest, train(whole).digest);
  EXPECT_EQ(last.steps, straight.steps);
}

INSTANTIATE_TEST_SUITE_P(Of, VirtualTowers,
                         testing::Values(std::pair(StrategyKind::replicated, FeedMode::per_tower),
                                         std::pair(StrategyKind::replicated, FeedMode::split),
                                         std::pair(StrategyKind::parameter_device,
                                                   FeedMode::sharded),
                                         std::pair(StrategyKind::spread, FeedMode::per_tower)),
                         [](const auto& row) {
                           return std::string(name_of(row.param.first)) +
                                  std::to_string(static_cast<int>(row.param.second));
                         });

TEST(VirtualTowers, AreRefusedWhereTheyCantBeDivided) {
  const auto refused = [](const TrainOptions& options, const std::string& why) {
    expect_error(ErrorCode::invalid_argument, why, [&] { train(options); });
  };
  refused(options_of(4, 3), "4 virtual towers can't be divided among 3 devices");
  refused(options_of(2, 4), "2 virtual towers can't be divided among 4 devices");
  refused(options_of(-1, 1), "less than one virtual tower");
  TrainOptions async = options_of(4, 2);
  async.deterministic = false;
  async.strategy.kind = StrategyKind::async;
  refused(async, "4 virtual towers on 2 devices: only replicated");
}

TEST(VirtualTowers, OrderOfThoseOfADevice) {
  const TimeLimit limit(60);
  static std::atomic<int> at_once{0}, most{0};
  // Where none waits for another's statistics within a step, a device has one step at a time.
  class Alone final : public Classifier {
   public:
    explicit Alone(const Scope& scope) {
      build(scope, {[](const Scope& s) {
              return dense(s / "a", {.in = 4, .out = 3, .initializer = Initializer::he(4)});
            }});
    }
    Loss forward(const Batch& batch, const Pass& pass) override {
      if (pass.training) most = std::max(most.load(), ++at_once);
      return Classifier::forward(batch, pass);
    }
    void backward(const Pass& pass) override {
      Classifier::backward(pass);
      --at_once;
    }
  };
  for (const int devices : {1, 2}) {
    most = 0;
    Trainer trainer(maker<Alone>(), points(203), std::nullopt, options_of(8, devices));
    trainer.run(nobody);
    EXPECT_LE(most, devices);
    EXPECT_EQ(at_once, 0);
  }
}

}  // namespace virtual_towers_test
}  // namespace penstock::towers
