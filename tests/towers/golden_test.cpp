// Layers, losses, optimizers and schedules against what PyTorch computes; see
// tests/golden/layers_torch.py.
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/towers/layers/batch_norm.h>
#include <penstock/towers/layers/conv2d.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/lrn.h>
#include <penstock/towers/layers/pool.h>
#include <penstock/towers/layers/relu.h>
#include <penstock/towers/layers/similarity.h>
#include <penstock/towers/layers/softmax_loss.h>
#include <penstock/towers/optimizer.h>

#include "tests/support/places.h"
#include "tests/towers/arrays.h"
#include "towers/updater.h"

namespace penstock::towers {
namespace {

using test::host_store;
using test::list;
using test::pass_over;

const std::map<std::string, std::vector<float>>& golden() {
  static const auto all = [] {
    std::map<std::string, std::vector<float>> values;
    std::ifstream in(penstock::test::source_dir() + "/tests/golden/layers_torch.txt");
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string name;
      words >> name;
      for (float value = 0; words >> value;) values[name].push_back(value);
    }
    return values;
  }();
  return all;
}

void expect_golden(const std::string& name, const Array& got) {
  ASSERT_TRUE(golden().contains(name)) << name;
  EXPECT_THAT(list(got), testing::Pointwise(testing::FloatNear(2e-5F), golden().at(name))) << name;
}

Array wave(const Shape& shape, double phase) {
  Array array(shape);
  for (std::size_t i = 0; i < array.size(); ++i)
    array.data()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + phase));
  return array;
}

struct Case {
  std::string name;
  Shape in;
  std::function<LayerPtr(const Scope&)> make;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, IsPyTorchs) {
  VariableStore store = host_store();
  const LayerPtr layer = GetParam().make(store.tower(0));
  double phase = 2;
  std::vector<Variable*> learnt;
  for (Variable* variable : store.of(0)) {
    if (!variable->trainable) continue;
    variable->value = wave(variable->value.shape(), phase++);
    learnt.push_back(variable);
  }
  const Array in = wave(GetParam().in, 1);
  const Pass pass = pass_over(in.dim(0));
  const Array& out = layer->forward(in, pass);
  expect_golden(GetParam().name + ".out", out);
  expect_golden(GetParam().name + ".in_gradient", layer->backward(wave(out.shape(), 4), pass));
  for (std::size_t i = 0; i < learnt.size(); ++i)
    expect_golden(GetParam().name + ".gradient" + std::to_string(i), learnt[i]->gradient);
}

INSTANTIATE_TEST_SUITE_P(
    Layers, Golden,
    testing::Values(
        Case{"conv2d",
             {2, 5, 4, 3},
             [](const Scope& scope) {
               return conv2d(scope, {.in = 3, .out = 2, .kernel = 3, .padding = {1, 1}});
             }},
        Case{"conv2d_strided",
             {1, 6, 6, 2},
             [](const Scope& scope) {
               return conv2d(scope,
                             {.in = 2, .out = 3, .kernel = 3, .stride = 2, .padding = {1, 1}});
             }},
        Case{"dense", {3, 4}, [](const Scope& scope) { return dense(scope, {.in = 4, .out = 2}); }},
        Case{"relu", {2, 6}, [](const Scope& scope) { return relu(scope); }},
        Case{"lrn",
             {1, 2, 2, 6},
             [](const Scope& scope) {
               return lrn(scope, {.radius = 2, .bias = 1, .alpha = 0.3F, .beta = 0.75F});
             }},
        Case{"max_pool", {1, 4, 4, 2}, [](const Scope& scope) { return pool(scope, {}); }},
        Case{"max_pool_same",
             {1, 6, 6, 1},
             [](const Scope& scope) {
               return pool(scope, {Pooling::max, 3, 2, Padding::same(6, 3, 2)});
             }},
        Case{"average_pool",
             {1, 5, 5, 2},
             [](const Scope& scope) {
               return pool(scope, {Pooling::average, 3, 2, {1, 1}});
             }},
        Case{"batch_norm",
             {3, 2, 2, 2},
             [](const Scope& scope) { return batch_norm(scope, {.channels = 2}); }}),
    [](const testing::TestParamInfo<Case>& made) { return made.param.name; });

TEST(GoldenLosses, ArePyTorchs) {
  const Array logits = wave({4, 5}, 1);
  SoftmaxLoss softmax;
  const auto result = softmax.forward(logits, std::vector<std::int64_t>{0, 3, 4, 1}, pass_over(4));
  EXPECT_NEAR(result.loss_sum / 4, golden().at("softmax_loss.out")[0], 1e-6);
  expect_golden("softmax_loss.in_gradient", softmax.backward());
  TripletLoss triplet(1.5F);
  const double sum =
      triplet.forward(wave({3, 4}, 1), wave({3, 4}, 2), wave({3, 4}, 3), pass_over(3)).loss_sum;
  EXPECT_NEAR(sum / 3, golden().at("triplet.out")[0], 1e-6);
  expect_golden("triplet.in_gradient", triplet.query_gradient());
  expect_golden("triplet.gradient0", triplet.positive_gradient());
  expect_golden("triplet.gradient1", triplet.negative_gradient());
}

TEST(GoldenUpdates, ArePyTorchs) {
  for (const char* name : {"sgd", "momentum", "nesterov", "adam"}) {
    VariableStore store = host_store();
    Variable& variable = store.tower(0).get("v", {4}, {});
    variable.value = wave({4}, 1);
    store.pack();
    Updater updater(store.of(0), {make_optimizer(name), Schedule::constant(0.1)});
    for (std::uint64_t step = 0; step < 5; ++step) {
      std::ranges::copy(list(wave({4}, 2.0 + static_cast<double>(step))), variable.gradient.data());
      variable.has_gradient = true;
      updater.apply(store.of(0), step);
    }
    expect_golden(name, variable.value);
  }
  const Schedule cycle = Schedule::parse("one_cycle:0.05").over(20);
  for (std::uint64_t step = 0; step < 20; ++step)
    EXPECT_NEAR(cycle.at(step), golden().at("one_cycle")[step], 1e-8) << step;
}

}  // namespace
}  // namespace penstock::towers
