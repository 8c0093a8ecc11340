// Every layer against finite differences, and what each promises beside.
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/towers/layers/batch_norm.h>
#include <penstock/towers/layers/conv2d.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/dropout.h>
#include <penstock/towers/layers/lrn.h>
#include <penstock/towers/layers/pool.h>
#include <penstock/towers/layers/relu.h>
#include <penstock/towers/layers/residual.h>

#include "tests/support/errors.h"
#include "tests/towers/arrays.h"
#include "towers/onednn.h"
#include "towers/train/collective.h"

namespace penstock::towers {
namespace layers_test {

using penstock::test::expect_error;
using test::array_of;
using test::host_store;
using test::list;
using test::skip;
using test::spread_array;

struct Case {
  std::string name;
  Shape in;
  std::function<LayerPtr(const Scope&)> make;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

const Initializer kSome = Initializer::normal(0.5F);

class EveryLayer : public testing::TestWithParam<Case> {};

double dot(const Array& a, const Array& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a.data()[i]) * static_cast<double>(b.data()[i]);
  return sum;
}

/// The derivative of <weights, layer(in)> with regard to one value, by central differences.
double difference(Layer& layer, const Array& in, const Array& weights, float& value) {
  constexpr float kStep = 2e-3F;
  const Pass pass = skip(in.dim(0));
  const float old = value;
  value = old + kStep;
  const float above = value;
  const double high = dot(weights, layer.forward(in, pass));
  value = old - kStep;
  const double low = dot(weights, layer.forward(in, pass));
  const double width = static_cast<double>(above) - static_cast<double>(value);
  value = old;
  return (high - low) / width;
}

void expect_derivatives(Layer& layer, const Array& in, const Array& weights, Array& values,
                        const Array& gradient, const std::string& what) {
  ASSERT_EQ(values.size(), gradient.size()) << what;
  const std::size_t stride = std::max<std::size_t>(1, values.size() / 37);
  for (std::size_t i = 0; i < values.size(); i += stride) {
    const double expected = difference(layer, in, weights, values.data()[i]);
    const double got = gradient.data()[i];
    EXPECT_NEAR(got, expected, 2e-3 + 1e-2 * std::abs(expected)) << what << " at " << i;
  }
}

TEST_P(EveryLayer, FiniteDifferences) {
  set_compute_threads(1);
  VariableStore store = host_store();
  const LayerPtr layer = GetParam().make(store.tower(0) / "layer");
  Array in = spread_array(GetParam().in, 3);
  const Pass pass = skip(in.dim(0));
  const Array weights = spread_array(layer->forward(in, pass).shape(), 5);
  Array in_gradient;
  for (int round = 0; round < 2; ++round) {  // variables' gradients add up
    layer->forward(in, pass);
    const Array& result = layer->backward(weights, pass);
    in_gradient.resize(result.shape());
    std::copy_n(result.data(), result.size(), in_gradient.data());
  }
  EXPECT_EQ(in_gradient.shape(), in.shape());
  expect_derivatives(*layer, in, weights, in, in_gradient, "input");
  for (Variable* variable : store.of(0)) {
    if (!variable->trainable) continue;
    ASSERT_TRUE(variable->has_gradient);
    Array half(variable->value.shape());
    for (std::size_t i = 0; i < half.size(); ++i) half.data()[i] = variable->gradient.data()[i] / 2;
    expect_derivatives(*layer, in, weights, variable->value, half, variable->name);
  }
}

TEST_P(EveryLayer, TakesOtherNumbersOfRows) {
  VariableStore store = host_store();
  const LayerPtr layer = GetParam().make(store.tower(0) / "layer");
  const Array in = spread_array(GetParam().in, 3);
  const Array out = [&] {
    const Array& result = layer->forward(in, skip(in.dim(0), false));
    Array copy(result.shape());
    std::copy_n(result.data(), result.size(), copy.data());
    return copy;
  }();
  const Shape one = GetParam().in.with(0, 1);
  const Array first = Array::view(in.data(), one);
  const Array& alone = layer->forward(first, skip(1, false));
  ASSERT_EQ(alone.dim(0), 1);
  for (std::size_t i = 0; i < alone.size(); ++i)
    EXPECT_NEAR(alone.data()[i], out.data()[i], 1e-5) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Layers, EveryLayer,
    testing::Values(
        Case{"conv2d",
             {3, 5, 6, 3},
             [](const Scope& scope) {
               return conv2d(scope, {.in = 3,
                                     .out = 4,
                                     .kernel = 3,
                                     .padding = {1, 1},
                                     .initializer = kSome,
                                     .bias_initializer = kSome});
             }},
        Case{"conv2d_strided",
             {2, 7, 7, 16},
             [](const Scope& scope) {
               return conv2d(scope, {.in = 16,
                                     .out = 16,
                                     .kernel = 3,
                                     .stride = 2,
                                     .padding = Padding::same(7, 3, 2),
                                     .bias = false,
                                     .initializer = kSome});
             }},
        Case{"conv2d_1x1",
             {2, 3, 3, 5},
             [](const Scope& scope) {
               return conv2d(scope, {.in = 5, .out = 2, .initializer = kSome});
             }},
        Case{"dense",
             {4, 3, 5},
             [](const Scope& scope) {
               return dense(scope,
                            {.in = 15, .out = 6, .initializer = kSome, .bias_initializer = kSome});
             }},
        Case{"relu", {3, 20}, [](const Scope& scope) { return relu(scope); }},
        Case{"lrn",
             {2, 2, 3, 7},
             [](const Scope& scope) {
               return lrn(scope, {.radius = 2, .bias = 1, .alpha = 0.3F, .beta = 0.75F});
             }},
        Case{"lrn_other_beta",
             {2, 9},
             [](const Scope& scope) {
               return lrn(scope, {.radius = 4, .bias = 2, .alpha = 0.1F, .beta = 0.5F});
             }},
        Case{"max_pool", {2, 6, 6, 4}, [](const Scope& scope) { return pool(scope, {}); }},
        Case{"max_pool_overlapping",
             {2, 6, 6, 3},
             [](const Scope& scope) {
               return pool(scope, {Pooling::max, 3, 2, Padding::same(6, 3, 2)});
             }},
        Case{"average_pool",
             {2, 5, 5, 3},
             [](const Scope& scope) {
               return pool(scope, {Pooling::average, 3, 2, {1, 1}});
             }},
        Case{"global_average_pool",
             {2, 3, 4, 5},
             [](const Scope& scope) { return global_average_pool(scope); }},
        Case{"batch_norm",
             {4, 3, 2, 3},
             [](const Scope& scope) { return batch_norm(scope, {.channels = 3}); }},
        Case{"batch_norm_relu",
             {4, 3, 2, 3},
             [](const Scope& scope) { return batch_norm(scope, {.channels = 3, .relu = true}); }},
        Case{"residual",
             {2, 3, 3, 2},
             [](const Scope& scope) {
               return residual(scope,
                               conv2d(scope / "a", {.in = 2, .out = 2, .initializer = kSome}));
             }},
        Case{"residual_with_shortcut",
             {2, 4, 4, 2},
             [](const Scope& scope) {
               return residual(
                   scope,
                   conv2d(scope / "a", {.in = 2, .out = 3, .stride = 2, .initializer = kSome}),
                   conv2d(scope / "b", {.in = 2, .out = 3, .stride = 2, .initializer = kSome}));
             }},
        Case{"dropout", {3, 10}, [](const Scope& scope) { return dropout(scope, 0.4F); }},
        Case{"sequential",
             {2, 4, 4, 2},
             [](const Scope& scope) {
               auto layers = std::make_unique<Sequential>();
               layers->add(conv2d(scope / "a", {.in = 2, .out = 8, .initializer = kSome}))
                   .add(pool(scope, {Pooling::average}))
                   .add(dense(scope / "b", {.in = 32, .out = 3, .initializer = kSome}));
               return LayerPtr(std::move(layers));
             }}),
    [](const testing::TestParamInfo<Case>& made) { return made.param.name; });

TEST(BatchNorm, EvaluatesWithMovingStatistics) {
  VariableStore store = host_store();
  const LayerPtr layer =
      batch_norm(store.tower(0), {.channels = 1, .momentum = 0.5F, .epsilon = 0});
  const Array in = array_of({4, 1}, {1, 3, 5, 99});
  EXPECT_THAT(list(layer->forward(in, skip(3))),
              testing::ElementsAre(testing::FloatNear(-1.224745F, 1e-5F), 0,
                                   testing::FloatNear(1.224745F, 1e-5F), testing::_))
      << "the row that is padding does not count";
  EXPECT_FLOAT_EQ(store.of(0)[2]->value.data()[0], 1.5F);  // mean: 0 and 3
  EXPECT_FLOAT_EQ(store.of(0)[3]->value.data()[0], 2.5F);  // variance: 1 and 4, unbiased
  const Array& out = layer->forward(in, skip(4, false));
  EXPECT_FLOAT_EQ(out.data()[1], 1.5F / std::sqrt(2.5F));
  EXPECT_FLOAT_EQ(store.of(0)[2]->value.data()[0], 1.5F);
}

TEST(BatchNorm, ReluInside) {
  const auto bits = [](const Array& array) {
    std::vector<std::uint32_t> all;
    for (const float value : list(array)) all.push_back(std::bit_cast<std::uint32_t>(value));
    return all;
  };
  VariableStore apart = host_store();
  VariableStore inside = host_store();
  const LayerPtr norm = batch_norm(apart.tower(0), {.channels = 4});
  const LayerPtr after = relu(apart.tower(0));
  const LayerPtr both = batch_norm(inside.tower(0), {.channels = 4, .relu = true});
  Array in = spread_array({6, 3, 4}, 1);
  in.data()[5] = std::nanf("");  // of one channel
  const Array gradient = spread_array({6, 3, 4}, 2);
  for (const bool training : {true, false}) {
    const Pass pass = skip(5, training);
    EXPECT_EQ(bits(both->forward(in, pass)), bits(after->forward(norm->forward(in, pass), pass)));
    if (!training) continue;
    EXPECT_EQ(bits(both->backward(gradient, pass)),
              bits(norm->backward(after->backward(gradient, pass), pass)));
  }
}

TEST(BatchNorm, SynchronisedTowers) {
  const BatchNormOptions options{.channels = 2, .synchronised = true};
  const Array in = spread_array({6, 2, 2}, 1);
  const Array gradient = spread_array({6, 2, 2}, 2);
  VariableStore alone = host_store(1);
  const LayerPtr whole = batch_norm(alone.tower(0), options);
  const std::vector<float> out = list(whole->forward(in, skip(6)));
  const std::vector<float> back = list(whole->backward(gradient, skip(6)));
  VariableStore store = host_store(2);
  const std::unique_ptr<Collective> group = make_host_collective(2);
  std::vector<LayerPtr> layers;
  for (int t = 0; t < 2; ++t) layers.push_back(batch_norm(store.tower(t), options));
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      const std::int64_t rows = t == 0 ? 2 : 4;
      const std::size_t at = t * 8;
      Pass pass = skip(rows);
      pass.tower = static_cast<int>(t);
      pass.others = group.get();
      const Array part = Array::view(in.data() + at, {rows, 2, 2});
      const Array part_gradient = Array::view(gradient.data() + at, {rows, 2, 2});
      const std::vector<float> mine = list(layers[t]->forward(part, pass));
      const std::vector<float> mine_back = list(layers[t]->backward(part_gradient, pass));
      for (std::size_t i = 0; i < mine.size(); ++i) {
        EXPECT_NEAR(mine[i], out[at + i], 1e-6);
        EXPECT_NEAR(mine_back[i], back[at + i], 1e-6);
      }
    });
  }
}

TEST(Layers, WrongShapes) {
  VariableStore store = host_store();
  const LayerPtr convolution = conv2d(store.tower(0) / "c", {.in = 3, .out = 2, .kernel = 3});
  const LayerPtr full = dense(store.tower(0) / "d", {.in = 4, .out = 2});
  expect_error(ErrorCode::invalid_argument, "c/conv2d: expected [n,h,w,3], got [1,4,4,2]", [&] {
    convolution->forward(Array({1, 4, 4, 2}), skip(1));
  });
  expect_error(ErrorCode::invalid_argument, "an image as large as the kernel", [&] {
    convolution->forward(Array({1, 2, 2, 3}), skip(1));
  });
  expect_error(ErrorCode::invalid_argument, "d/dense: expected rows of 4, got [2,5]", [&] {
    full->forward(Array({2, 5}), skip(2));
  });
}

TEST(Layers, FirstLayers) {
  VariableStore store = host_store();
  const LayerPtr layer = dense(store.tower(0), {.in = 4, .out = 2, .input_gradient = false});
  const Array in = spread_array({3, 4}, 1);
  layer->forward(in, skip(3));
  EXPECT_TRUE(layer->backward(Array({3, 2}), skip(3)).empty());
}

TEST(Padding, Same) {
  const auto same = [](std::int64_t extent, std::int64_t kernel, std::int64_t stride) {
    const Padding padding = Padding::same(extent, kernel, stride);
    return std::pair(padding.low, padding.high);
  };
  EXPECT_EQ(same(24, 3, 2), std::pair(std::int64_t{0}, std::int64_t{1}));
  EXPECT_EQ(same(24, 5, 1), std::pair(std::int64_t{2}, std::int64_t{2}));
  EXPECT_EQ(same(5, 2, 2), std::pair(std::int64_t{0}, std::int64_t{1}));
  EXPECT_EQ(same(4, 1, 4), std::pair(std::int64_t{0}, std::int64_t{0}));
}

TEST(Lrn, AlphaWithoutTheWindow) {
  VariableStore store = host_store();
  const LayerPtr layer = lrn(store.tower(0), {.radius = 1, .bias = 1, .alpha = 1, .beta = 0.5F});
  const Array in = array_of({1, 3}, {1, 2, 2});
  const Array& out = layer->forward(in, skip(1));
  EXPECT_NEAR(out.data()[0], 1 / std::sqrt(1 + 5.0), 1e-6);
  EXPECT_NEAR(out.data()[1], 2 / std::sqrt(1 + 9.0), 1e-6);
  EXPECT_NEAR(out.data()[2], 2 / std::sqrt(1 + 8.0), 1e-6);
}

TEST(Dropout, DependsOnTheElementAndNotOnTheTower) {
  VariableStore store = host_store();
  const LayerPtr layer = dropout(store.tower(0) / "d", 0.5F);
  const Array in = [] {
    Array ones({8, 33});
    ones.fill(1);
    return ones;
  }();
  const std::vector<float> whole = list(layer->forward(in, skip(8)));
  Pass second = skip(4);
  second.first = 4;
  const Array half = Array::view(in.data(), {4, 33});
  const std::vector<float> part = list(layer->forward(half, second));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 4 * 33));
  Pass strided = skip(4);
  strided.first = 1;
  strided.stride = 2;
  const std::vector<float> odd = list(layer->forward(half, strided));
  EXPECT_TRUE(std::equal(odd.begin(), odd.begin() + 33, whole.begin() + 33));
  EXPECT_TRUE(std::equal(odd.begin() + 33, odd.begin() + 66, whole.begin() + 3 * 33));
  Pass later = skip(8);
  later.step = 1;
  EXPECT_NE(list(layer->forward(in, later)), whole);
}

TEST(Dropout, KeepsTheMeanAndIsOffInEvaluation) {
  VariableStore store = host_store();
  const LayerPtr layer = dropout(store.tower(0) / "d", 0.3F);
  Array in({100, 100});
  in.fill(1);
  double sum = 0;
  for (const float value : list(layer->forward(in, skip(100)))) sum += value;
  EXPECT_NEAR(sum / 10'000, 1, 0.03);  // sigma 0.0065
  EXPECT_EQ(&layer->forward(in, skip(100, false)), &in);
  expect_error(ErrorCode::invalid_argument, "rate", [&] { dropout(store.tower(0), 1.0F); });
}

}  // namespace layers_test
}  // namespace penstock::towers
