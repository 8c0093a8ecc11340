// A loop of one's own around ParameterExchange trains to the trainer's bits.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/sources.h>
#include <penstock/towers/parameter_exchange.h>
#include <penstock/towers/trainer.h>

#include "tests/support/time_limit.h"

namespace penstock::towers {
namespace parameter_exchange_bits_test {

using penstock::test::TimeLimit;

const std::vector<std::int64_t> kSizes{7, 5000, 1, 64};

float value_of(int tower, int step, std::size_t i) {
  return 0.1F * static_cast<float>(tower + 1) + 1.7F * static_cast<float>(step) +
         0.013F * static_cast<float>(i % 977);
}

/// What towers of the trainer gave it, by step, tower and variable.
struct Recorded {
  std::mutex mutex;
  std::map<std::pair<std::uint64_t, int>, std::vector<std::vector<float>>> gradients;
  std::map<std::pair<std::uint64_t, int>, std::int64_t> rows;
};

/// A model that has no more to say than its gradients.
class Told final : public Model {
 public:
  Told(const Scope& scope, Recorded& recorded) : recorded_(recorded) {
    for (std::size_t v = 0; v < kSizes.size(); ++v)
      variables_.push_back(
          &scope.get("p" + std::to_string(v), {kSizes[v]}, {Initializer::normal(1)}));
  }
  Loss forward(const Batch& batch, const Pass& /*pass*/) override {
    return {.rows = batch.valid_rows()};
  }
  void backward(const Pass& pass) override {
    std::vector<std::vector<float>> mine(variables_.size());
    for (std::size_t v = 0; v < variables_.size(); ++v)
      for (std::size_t i = 0; i < static_cast<std::size_t>(kSizes[v]); ++i)
        mine[v].push_back(value_of(pass.tower, static_cast<int>(pass.step), i));
    {
      const std::lock_guard lock(recorded_.mutex);
      recorded_.gradients[{pass.step, pass.tower}] = mine;
      recorded_.rows[{pass.step, pass.tower}] = pass.valid_rows;
    }
    for (std::size_t v = variables_.size(); v-- > 0;) {
      variables_[v]->accumulate();
      std::copy(mine[v].begin(), mine[v].end(), variables_[v]->gradient.data());
      variables_[v]->added();
    }
  }

 private:
  Recorded& recorded_;
  std::vector<Variable*> variables_;
};

TEST(ParameterExchange, TrainsToTheTrainersBits) {
  const TimeLimit limit(100);
  constexpr float kRate = 0.37F;
  for (const int towers : {1, 2, 3, 4}) {
    Recorded recorded;
    TrainOptions options;
    for (int t = 0; t < towers; ++t) options.devices.push_back(device({DeviceKind::host, t}));
    options.batch = 8;
    options.threads = 1;
    options.feed.end = EpochEnd::stop;  // the last step's batches are of different sizes
    options.strategy.update = {make_optimizer("sgd"), Schedule::constant(kRate)};
    Trainer trainer([&](const Scope& s) { return std::make_unique<Told>(s, recorded); }, range(77),
                    std::nullopt, options);
    std::vector<std::vector<float>> values;
    for (const Variable* variable : trainer.variables().of(0))
      values.emplace_back(variable->value.values().begin(), variable->value.values().end());
    TrainObserver nobody;
    const TrainResult result = trainer.run(nobody);

    std::vector<std::vector<std::vector<float>>> gradients;  // of each tower
    std::vector<OwnTower> own(static_cast<std::size_t>(towers));
    for (OwnTower& tower : own) {
      std::vector<std::vector<float>>& mine = gradients.emplace_back();
      for (std::size_t p = 0; p < kSizes.size(); ++p) {
        mine.emplace_back(static_cast<std::size_t>(kSizes[p]));
        tower.parameters.push_back({.name = "p" + std::to_string(p),
                                    .shape = {kSizes[p]},
                                    .value = values[p].data(),
                                    .gradient = mine.back().data()});
      }
    }
    ParameterExchange exchange(own);
    for (std::uint64_t step = 0; step < result.steps; ++step) {
      for (int t = 0; t < towers; ++t) {
        exchange.begin(t, recorded.rows[{step, t}]);
        for (std::size_t p = kSizes.size(); p-- > 0;) {
          std::ranges::copy(recorded.gradients[{step, t}][p],
                            gradients[static_cast<std::size_t>(t)][p].begin());
          exchange.ready(t, p);
        }
        exchange.push(t);
      }
      for (int t = 0; t < towers; ++t) exchange.wait(t);
      for (std::size_t p = 0; p < kSizes.size(); ++p)
        for (std::size_t i = 0; i < values[p].size(); ++i)
          values[p][i] -= kRate * gradients[0][p][i];
    }
    EXPECT_GT(result.steps, 2U);
    for (std::size_t p = 0; p < kSizes.size(); ++p) {
      const std::span<const float> trained = trainer.variables().of(0)[p]->value.values();
      EXPECT_EQ(values[p], std::vector<float>(trained.begin(), trained.end()))
          << towers << " towers, parameter " << p;
    }
  }
}

}  // namespace parameter_exchange_bits_test
}  // namespace penstock::towers
