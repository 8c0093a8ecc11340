// Layers, losses, optimizers and schedules against what PyTorch computes; see
// tests/golden/layers_torch.py.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
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
#include "towers/layers/sigmoid_loss.h"
#include "towers/train/updater.h"

namespace penstock::towers {
namespace {

using test::host_store;
using test::list;
using test::skip;

const std::map<std::string, std::vector<float>>& golden() {
  static const auto all = [] {
    std::map<std::string, std::vector<float>> values;
    std::ifstream in(penstock::test::source_dir() + "/tests/golden/layers_torch.txt");
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string name;
      words >> name;
      // Streams read no "nan".
      for (std::string word; words >> word;)
        values[name].push_back(std::strtof(word.c_str(), nullptr));
    }
    return values;
  }();
  return all;
}

/// Near, or the same infinity, or both NaN.
MATCHER(IsLike, "") {
  const float got = std::get<0>(arg);
  const float wanted = std::get<1>(arg);
  return got == wanted || std::abs(got - wanted) <= 2e-5F ||
         (std::isnan(got) && std::isnan(wanted));
}

void expect_golden(const std::string& name, const Array& got) {
  ASSERT_TRUE(golden().contains(name)) << name;
  EXPECT_THAT(list(got), testing::Pointwise(IsLike(), golden().at(name))) << name;
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

/// Replaces a value of an array, if this is the array of `place`.
void replace(Array& array, float odd, int place, int here) {
  if (place == here) array.data()[std::min<std::size_t>(5, array.size() - 1)] = odd;
}

/// One layer forwards and backwards. `odd` is in the array of `place`: 0 the input, 1 the gradient
/// of the output, then the variables.
void expect_layer(const Case& one, const std::string& name, float odd, int place) {
  VariableStore store = host_store();
  const LayerPtr layer = one.make(store.tower(0));
  std::vector<Variable*> learnt;
  for (Variable* variable : store.of(0)) {
    if (!variable->trainable) continue;
    const int number = 2 + static_cast<int>(learnt.size());
    variable->value = wave(variable->value.shape(), number);
    replace(variable->value, odd, place, number);
    learnt.push_back(variable);
  }
  Array in = wave(one.in, 1);
  replace(in, odd, place, 0);
  const Pass pass = skip(in.dim(0));
  const Array& out = layer->forward(in, pass);
  expect_golden(name + ".out", out);
  Array gradient = wave(out.shape(), 4);
  replace(gradient, odd, place, 1);
  expect_golden(name + ".in_gradient", layer->backward(gradient, pass));
  for (std::size_t i = 0; i < learnt.size(); ++i)
    expect_golden(name + ".gradient" + std::to_string(i), learnt[i]->gradient);
}

const std::pair<const char*, float> kOdd[] = {
    {"nan", std::numeric_limits<float>::quiet_NaN()},
    {"inf", std::numeric_limits<float>::infinity()},
    {"minus_inf", -std::numeric_limits<float>::infinity()},
    {"minus_zero", -0.0F},
    {"denormal", 1e-42F}};

TEST_P(Golden, IsPyTorchs) {
  const std::string& name = GetParam().name;
  expect_layer(GetParam(), name, 0, -1);
  if (name == "conv2d_strided") return;  // conv2d has them
  for (const auto& [word, odd] : kOdd) {
    for (int place = 0; place < 4; ++place) {
      const std::string full = name + "." + word + "." + std::to_string(place);
      if (golden().contains(full + ".out")) expect_layer(GetParam(), full, odd, place);
    }
  }
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
  const auto result = softmax.forward(logits, std::vector<std::int64_t>{0, 3, 4, 1}, skip(4));
  EXPECT_NEAR(result.loss_sum / 4, golden().at("softmax_loss.out")[0], 1e-6);
  expect_golden("softmax_loss.in_gradient", softmax.backward());
  TripletLoss triplet(1.5F);
  const double sum =
      triplet.forward(wave({3, 4}, 1), wave({3, 4}, 2), wave({3, 4}, 3), skip(3)).loss_sum;
  EXPECT_NEAR(sum / 3, golden().at("triplet.out")[0], 1e-6);
  expect_golden("triplet.in_gradient", triplet.query_gradient());
  expect_golden("triplet.gradient0", triplet.positive_gradient());
  expect_golden("triplet.gradient1", triplet.negative_gradient());
  InBatchNegativesLoss others(5);
  const double all = others.forward(wave({3, 4}, 1), wave({3, 4}, 2), skip(3)).loss_sum;
  EXPECT_NEAR(all / 3, golden().at("in_batch.out")[0], 1e-6);
  expect_golden("in_batch.in_gradient", others.query_gradient());
  expect_golden("in_batch.gradient0", others.positive_gradient());
}

TEST(GoldenLosses, OfOddNumbersArePyTorchs) {
  for (const auto& [word, odd] : kOdd) {
    SCOPED_TRACE(word);
    const auto expect_loss = [&](const std::string& name, double sum, double rows) {
      const float wanted = golden().at(name + "." + word + ".out")[0];
      if (std::isnan(wanted)) {
        EXPECT_TRUE(std::isnan(sum)) << name << ' ' << sum;
      } else if (std::isinf(wanted)) {
        EXPECT_EQ(sum, wanted) << name;
      } else {
        EXPECT_NEAR(sum / rows, wanted, 1e-6) << name;
      }
    };
    const std::string end = std::string(".") + word;
    Array logits = wave({4, 5}, 1);
    logits.data()[5] = odd;
    SoftmaxLoss softmax;
    const std::vector<std::int64_t> classes{0, 3, 4, 1};
    expect_loss("softmax_loss", softmax.forward(logits, classes, skip(4)).loss_sum, 4);
    expect_golden("softmax_loss" + end + ".in_gradient", softmax.backward());
    Array scores = wave({4, 1}, 1);
    scores.data()[1] = odd;
    SigmoidLoss sigmoid;
    const std::vector<std::int64_t> labels{0, 1, 1, 0};
    const double loss = sigmoid.forward(scores, labels, skip(4)).loss_sum;
    // PyTorch's form multiplies minus infinity by 0; ours is TensorFlow's.
    if (odd == -std::numeric_limits<float>::infinity()) {
      EXPECT_EQ(loss, std::numeric_limits<double>::infinity());
    } else {
      expect_loss("sigmoid_loss", loss, 4);
    }
    expect_golden("sigmoid_loss" + end + ".in_gradient", sigmoid.backward());
    Array query = wave({3, 4}, 1);
    query.data()[4] = odd;
    TripletLoss triplet(1.5F);
    expect_loss("triplet",
                triplet.forward(query, wave({3, 4}, 2), wave({3, 4}, 3), skip(3)).loss_sum, 3);
    expect_golden("triplet" + end + ".in_gradient", triplet.query_gradient());
    expect_golden("triplet" + end + ".gradient0", triplet.positive_gradient());
    expect_golden("triplet" + end + ".gradient1", triplet.negative_gradient());
    InBatchNegativesLoss others(5);
    expect_loss("in_batch", others.forward(query, wave({3, 4}, 2), skip(3)).loss_sum, 3);
    expect_golden("in_batch" + end + ".in_gradient", others.query_gradient());
    expect_golden("in_batch" + end + ".gradient0", others.positive_gradient());
  }
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
