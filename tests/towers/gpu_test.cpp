// What towers on GPUs do, with NVIDIA's libraries and our kernels replaced by loops on the host:
// each layer against its form on host devices, whole runs of training, the exchange of gradients.
#include <bit>
#include <cmath>
#include <deque>
#include <functional>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/towers/layers/batch_norm.h>
#include <penstock/towers/layers/conv2d.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/dropout.h>
#include <penstock/towers/layers/embedding_bag.h>
#include <penstock/towers/layers/l2.h>
#include <penstock/towers/layers/lrn.h>
#include <penstock/towers/layers/pool.h>
#include <penstock/towers/layers/relu.h>
#include <penstock/towers/layers/residual.h>
#include <penstock/towers/layers/similarity.h>
#include <penstock/towers/layers/softmax_loss.h>

#include "tests/support/errors.h"
#include "tests/towers/arrays.h"
#include "tests/towers/fake_gpu.h"
#include "towers/gpu/gpu.h"
#include "towers/gpu/layers.h"
#include "towers/onednn.h"
#include "towers/train/updater.h"

namespace penstock::towers {
namespace {

using test::expect_near;
using test::fake_gpu;
using test::host_store;
using test::list;
using test::skip;
using test::spread_array;

const Initializer kSome = Initializer::normal(0.5F);

/// Where towers compute: as on a GPU, or on the first that there is.
enum class Place { fake, cuda };

/// The device and its libraries; nothing where there is none.
std::optional<std::pair<DevicePtr, const GpuLibraries*>> open(Place place) {
  if (place == Place::fake) return {{device({DeviceKind::host, 0}), &fake_gpu()}};
  try {
    return {{device({DeviceKind::cuda, 0}), &gpu_libraries()}};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    return std::nullopt;
  }
}

/// A store with one tower that computes on a GPU, and the same one that does not.
struct Pair {
  explicit Pair(const std::pair<DevicePtr, const GpuLibraries*>& where,
                Precision precision = Precision::f32, bool deterministic = false)
      : gpu(where.first, *where.second, precision, deterministic) {
    set_compute_threads(1);
    there.use(0, gpu);
  }
  Gpu gpu;
  VariableStore here = host_store(), there = host_store();
  std::deque<Array> numbers;

  /// As the GPU has it.
  Array up(const Array& values) {
    Array f32 = gpu.array(DType::f32);
    f32.resize(values.shape());
    gpu.upload(values.values(), f32);
    if (gpu.dtype() == DType::f32) return f32;
    Array bf16 = gpu.array();
    bf16.resize(values.shape());
    gpu.run(ToBf16Plan{f32.data(), bf16.as<Bf16>()}, static_cast<std::int64_t>(values.size()));
    return bf16;
  }
  std::span<const std::int64_t> up(const std::vector<std::int64_t>& values) {
    Array& there_too = numbers.emplace_back(gpu.array(DType::i64));
    there_too.resize({static_cast<std::int64_t>(values.size())});
    gpu.stream().copy({there_too.bytes(), values.data(), there_too.nbytes()});
    gpu.stream().synchronize();
    return {there_too.as<std::int64_t>(), values.size()};
  }
  template <typename T>
  std::vector<T> raw(const Array& values) {
    std::vector<T> copy(values.size());
    gpu.stream().copy({copy.data(), values.bytes(), values.nbytes()});
    gpu.stream().synchronize();
    gpu.device()->check();
    return copy;
  }
  std::vector<float> down(const Array& values) {
    if (values.dtype() == DType::f32) return raw<float>(values);
    std::vector<float> result;
    for (const Bf16 value : raw<Bf16>(values)) result.push_back(load(value));
    return result;
  }
  Pass pass(std::int64_t rows, bool training = true) {
    Pass made = skip(rows, training);
    made.gpu = &gpu;
    return made;
  }
  std::vector<double> result() { return raw<double>(gpu.result()); }
};

struct Case {
  std::string name;
  Shape in;
  std::function<LayerPtr(const Scope&)> make;
  bool gated = false;  ///< by values that it computes
};

class GpuLayer : public testing::TestWithParam<std::tuple<Case, Precision, Place>> {};

TEST_P(GpuLayer, ComputesWhatTheHostComputes) {
  const Case& c = std::get<Case>(GetParam());
  const Precision precision = std::get<Precision>(GetParam());
  const Place place = std::get<Place>(GetParam());
  const auto where = open(place);
  if (!where) GTEST_SKIP() << "no GPU here";
  const double rounding = place == Place::fake ? 2e-6 : 2e-5;
  // A rounding may open or close the gate of a relu, and with it a whole gradient.
  const bool rounds =
      precision == Precision::bf16 || (precision == Precision::tf32 && place == Place::cuda);
  const double tolerance = c.gated && rounds                                      ? 0.15
                           : precision == Precision::bf16                         ? 0.02
                           : precision == Precision::tf32 && place == Place::cuda ? 3e-3
                                                                                  : rounding;
  Pair pair(*where, precision);
  const LayerPtr here = c.make(pair.here.tower(0) / "layer");
  const LayerPtr there = c.make(pair.there.tower(0) / "layer");
  pair.here.pack();
  pair.there.pack();
  const Array in = spread_array(c.in, 3);
  const Array in_there = pair.up(in);
  const std::int64_t valid = c.in[0] - 1;
  for (const bool training : {true, false}) {
    for (int round = 0; round < 2; ++round) {  // variables' gradients add up
      const Pass pass = skip(valid, training);
      const Array& out = here->forward(in, pass);
      const Array& out_there = there->forward(in_there, pair.pass(valid, training));
      EXPECT_EQ(out_there.shape(), out.shape());
      // What padding becomes is nobody's business.
      const auto used = static_cast<std::size_t>(valid * out.row_size());
      const auto first = [&](std::vector<float> values) {
        values.resize(used);
        return values;
      };
      expect_near(first(pair.down(out_there)), first(list(out)), tolerance, "forward");
      if (!training) continue;
      Array gradient = spread_array(out.shape(), 5);
      std::fill(gradient.data() + used, gradient.data() + gradient.size(), 0.0F);
      const Array& back = here->backward(gradient, pass);
      const Array gradient_there = pair.up(gradient);
      const Array& back_there = there->backward(gradient_there, pair.pass(valid));
      EXPECT_EQ(back_there.shape(), back.shape());
      expect_near(pair.down(back_there), list(back), tolerance, "backward");
    }
  }
  ASSERT_EQ(pair.there.of(0).size(), pair.here.of(0).size());
  for (std::size_t v = 0; v < pair.here.of(0).size(); ++v) {
    const Variable& mine = *pair.here.of(0)[v];
    const Variable& other = *pair.there.of(0)[v];
    expect_near(pair.down(other.value), list(mine.value), tolerance, mine.name);
    if (!mine.trainable) continue;
    ASSERT_TRUE(other.has_gradient);
    expect_near(pair.down(other.gradient), list(mine.gradient), tolerance, mine.name);
  }
}

/// A convolution and its batch normalisation.
LayerPtr block(const Scope& scope, std::int64_t in, std::int64_t out) {
  auto layers = std::make_unique<Sequential>();
  layers->add(conv2d(scope, {.in = in, .out = out, .bias = false, .initializer = kSome}))
      .add(batch_norm(scope, {.channels = out, .scale = 0.7F}));
  return layers;
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<Case, Precision, Place>>& made) {
  const char* const names[] = {"f32", "tf32", "bf16"};
  return std::get<Case>(made.param).name + "_" +
         names[static_cast<int>(std::get<Precision>(made.param))] +
         (std::get<Place>(made.param) == Place::cuda ? "_cuda" : "");
}

INSTANTIATE_TEST_SUITE_P(Layers, GpuLayer,
                         testing::
                             Combine(
                                 testing::Values(Case{"conv2d",
                                                      {3, 5, 6, 3},
                                                      [](const Scope& scope) {
                                                        return conv2d(scope,
                                                                      {.in = 3,
                                                                       .out = 4,
                                                                       .kernel = 3,
                                                                       .padding = {1, 1},
                                                                       .initializer = kSome,
                                                                       .bias_initializer = kSome});
                                                      }},
                                                 Case{"conv2d_uneven",
                                                      {2, 6, 6, 4},
                                                      [](const Scope& scope) {
                                                        return conv2d(
                                                            scope,
                                                            {.in = 4,
                                                             .out = 5,
                                                             .kernel = 3,
                                                             .stride = 2,
                                                             .padding = Padding::same(6, 3, 2),
                                                             .bias = false,
                                                             .initializer = kSome});
                                                      }},
                                                 Case{"dense",
                                                      {4, 3, 5},
                                                      [](const Scope& scope) {
                                                        return dense(scope,
                                                                     {.in = 15,
                                                                      .out = 6,
                                                                      .initializer = kSome,
                                                                      .bias_initializer = kSome});
                                                      }},
                                                 Case{"relu",
                                                      {3, 20},
                                                      [](const Scope& scope) {
                                                        return relu(scope);
                                                      }},
                                                 Case{"dropout",
                                                      {5, 21},
                                                      [](const Scope& scope) {
                                                        return dropout(scope, 0.4F);
                                                      }},
                                                 Case{"lrn",
                                                      {3, 2, 3, 7},
                                                      [](const Scope& scope) {
                                                        return lrn(scope, {.radius = 2,
                                                                           .alpha = 0.3F,
                                                                           .beta = 0.75F});
                                                      }},
                                                 Case{"max_pool_uneven",
                                                      {3, 6, 6, 3},
                                                      [](const Scope& scope) {
                                                        return pool(scope,
                                                                    {Pooling::max, 3, 2,
                                                                     Padding::same(6, 3, 2)});
                                                      }},
                                                 Case{"max_pool",
                                                      {3, 7, 5, 8},
                                                      [](const Scope& scope) {
                                                        return pool(scope,
                                                                    {Pooling::max, 3, 2, {1, 1}});
                                                      }},
                                                 Case{"average_pool",
                                                      {3, 5, 5, 3},
                                                      [](const Scope& scope) {
                                                        return pool(
                                                            scope,
                                                            {Pooling::average, 3, 2, {1, 1}});
                                                      }},
                                                 Case{"global_average_pool",
                                                      {3, 3, 4, 5},
                                                      [](const Scope& scope) {
                                                        return global_average_pool(scope);
                                                      }},
                                                 Case{"batch_norm",
                                                      {5, 3, 2, 3},
                                                      [](const Scope& scope) {
                                                        return batch_norm(scope, {.channels = 3});
                                                      }},
                                                 Case{
                                                     "batch_norm_synchronised",
                                                     {5, 3, 2, 3},
                                                     [](const Scope& scope) {
                                                       return batch_norm(
                                                           scope,
                                                           {.channels = 3, .synchronised = true});
                                                     }},
                                                 Case{"batch_norm_relu",
                                                      {5, 3, 2, 3},
                                                      [](const Scope& scope) {
                                                        return batch_norm(
                                                            scope, {.channels = 3, .relu = true});
                                                      }, true},
                                                 Case{"batch_norm_relu_wide",
                                                      {5, 3, 2, 16},
                                                      [](const Scope& scope) {
                                                        return batch_norm(
                                                            scope, {.channels = 16, .relu = true});
                                                      }, true},
                                                 Case{"residual_normalised",
                                                      {4, 3, 4, 3},
                                                      [](const Scope& scope) {
                                                        return residual(scope,
                                                                        block(scope / "a", 3, 3));
                                                      }, true},
                                                 Case{"residual_normalised_wide",
                                                      {4, 3, 4, 8},
                                                      [](const Scope& scope) {
                                                        return residual(scope,
                                                                        block(scope / "a", 8, 16),
                                                                        block(scope / "b", 8, 16));
                                                      }, true},
                                                 Case{"residual",
                                                      {3, 4, 4, 2},
                                                      [](const Scope& scope) {
                                                        return residual(
                                                            scope,
                                                            conv2d(scope / "a",
                                                                   {.in = 2,
                                                                    .out = 3,
                                                                    .initializer = kSome}),
                                                            conv2d(scope / "b",
                                                                   {.in = 2,
                                                                    .out = 3,
                                                                    .initializer = kSome}));
                                                      }}),
                                 testing::Values(Precision::f32, Precision::tf32, Precision::bf16),
                                 testing::Values(Place::fake, Place::cuda)),
                         name_of_case);

TEST(GpuDeterministic, TakesAlgorithmsThatAre) {
  for (const bool deterministic : {false, true}) {
    Pair pair(*open(Place::fake), Precision::bf16, deterministic);
    const LayerPtr layer = conv2d(pair.there.tower(0), {.in = 2, .out = 2, .initializer = kSome});
    const Array in = pair.up(spread_array({1, 2, 2, 2}, 1));
    layer->forward(in, pair.pass(1));
    // The fake's faster one has no fixed order, and takes less room.
    EXPECT_EQ(pair.gpu.scratch(0).size(), deterministic ? 128U : 64U);
  }
}

TEST(GpuPool, AveragesWithEvenPadding) {
  Pair pair(*open(Place::fake));
  penstock::test::expect_error(ErrorCode::invalid_argument, "same padding on both sides", [&] {
    pool(pair.there.tower(0) / "p", {Pooling::average, 3, 2, {0, 1}});
  });
}

/// Counts the calls of another optimizer.
struct Counted final : Optimizer {
  explicit Counted(OptimizerPtr of) : inner(std::move(of)) {}
  std::string describe() const override { return inner->describe(); }
  std::vector<std::string> slots() const override { return inner->slots(); }
  bool elementwise() const override { return inner->elementwise(); }
  void apply(Variable& variable, std::span<Array> slots, float rate,
             std::uint64_t step) const override {
    ++calls;
    inner->apply(variable, slots, rate, step);
  }
  OptimizerPtr inner;
  mutable int calls = 0;
};

TEST(GpuUpdates, OneLaunchForAllVariables) {
  for (const char* text : {"sgd", "momentum:0.9", "nesterov:0.9", "adam", "adam:0.9:0.999:0"}) {
    Pair pair(*open(Place::fake));
    VariableStore apart = host_store();
    apart.use(0, pair.gpu);
    for (VariableStore* store : {&pair.there, &apart}) {
      batch_norm(store->tower(0) / "norm", {.channels = 5});
      dense(store->tower(0) / "fc", {.in = 7, .out = 3, .initializer = kSome});
      store->pack();
    }
    const auto counted = std::make_shared<Counted>(make_optimizer(text));
    const UpdateOptions options{counted, Schedule::constant(0.1)};
    Updater together(pair.there, 0, options);
    Updater one_by_one(apart.of(0), options);
    for (int step = 0; step < 3; ++step) {
      int trained = 0;
      for (std::size_t v = 0; v < apart.of(0).size(); ++v) {
        for (VariableStore* store : {&pair.there, &apart}) {
          Variable& variable = *store->of(0)[v];
          variable.has_gradient = variable.trainable && (step != 1 || v != 0);
          if (!variable.has_gradient) continue;
          const Array gradient = spread_array(variable.value.shape(), v + 10);
          pair.gpu.upload(gradient.values(), variable.gradient);
        }
        trained += apart.of(0)[v]->has_gradient ? 1 : 0;
      }
      const auto at = static_cast<std::uint64_t>(step);
      counted->calls = 0;
      together.apply(pair.there.of(0), at);
      EXPECT_EQ(counted->calls, step == 1 || !counted->elementwise() ? trained : 1) << text;
      one_by_one.apply(apart.of(0), at);
      for (std::size_t v = 0; v < apart.of(0).size(); ++v) {
        const std::string& name = apart.of(0)[v]->name;
        EXPECT_EQ(pair.down(pair.there.of(0)[v]->value), pair.down(apart.of(0)[v]->value)) << name;
        const std::span<Array> mine = together.slots(v).arrays;
        const std::span<Array> others = one_by_one.slots(v).arrays;
        ASSERT_EQ(mine.size(), others.size()) << name;
        for (std::size_t s = 0; s < mine.size(); ++s)
          EXPECT_EQ(pair.down(mine[s]), pair.down(others[s])) << name;
      }
    }
  }
}

/// Hides what a layer is from the one around it.
struct Hidden final : Layer {
  explicit Hidden(LayerPtr of) : inner(std::move(of)) {}
  const Array& forward(const Array& in, const Pass& pass) override {
    return inner->forward(in, pass);
  }
  const Array& backward(const Array& gradient, const Pass& pass) override {
    return inner->backward(gradient, pass);
  }
  LayerPtr inner;
};

/// Returns the bits that a layer makes of the same numbers, of which the last row is padding: its
/// output, the gradient of its input, its variables' gradients and values.
std::vector<std::vector<std::uint32_t>> made_by(const std::function<LayerPtr(const Scope&)>& make,
                                                const Shape& shape, std::int64_t valid) {
  Pair pair(*open(Place::fake));
  const LayerPtr layer = make(pair.there.tower(0));
  pair.there.pack();
  const Array in = pair.up(spread_array(shape, 3));
  std::vector<std::vector<std::uint32_t>> made;
  const auto add = [&](const Array& values, std::size_t count) {
    std::vector<std::uint32_t>& bits = made.emplace_back();
    for (const float value : pair.down(values)) bits.push_back(std::bit_cast<std::uint32_t>(value));
    bits.resize(count);
  };
  const auto used = static_cast<std::size_t>(valid * shape.volume() / shape[0]);
  for (int step = 0; step < 2; ++step) {
    const Array& out = layer->forward(in, pair.pass(valid));
    add(out, used);
    const Array gradient = pair.up(spread_array(out.shape(), 5));
    add(layer->backward(gradient, pair.pass(valid)), used);
  }
  for (const Variable* variable : pair.there.of(0)) {
    add(variable->value, variable->value.size());
    if (variable->trainable) add(variable->gradient, variable->gradient.size());
  }
  return made;
}

TEST(GpuFusedPasses, SameBitsAsPassesOfTheirOwn) {
  for (const auto& [channels, valid] : {std::pair<std::int64_t, std::int64_t>{3, 4}, {8, 3}}) {
    const Shape shape{4, 3, 5, channels};
    const auto norm = [&](bool inside) {
      return [=, channels = channels](const Scope& scope) {
        auto layers = std::make_unique<Sequential>();
        layers->add(batch_norm(scope, {.channels = channels, .relu = inside}));
        if (!inside) layers->add(relu(scope));
        return layers;
      };
    };
    EXPECT_EQ(made_by(norm(true), shape, valid), made_by(norm(false), shape, valid));
    for (const bool shortcut : {false, true}) {
      const auto make = [&](bool hidden) {
        return [=, channels = channels](const Scope& scope) {
          LayerPtr body = block(scope / "a", channels, channels);
          if (hidden) body = std::make_unique<Hidden>(std::move(body));
          return residual(scope, std::move(body),
                          shortcut ? block(scope / "b", channels, channels) : nullptr);
        };
      };
      EXPECT_EQ(made_by(make(false), shape, valid), made_by(make(true), shape, valid));
    }
  }
}

TEST(GpuFusedPasses, PaddingHasNoGates) {
  Pair pair(*open(Place::fake));
  const Scope scope = pair.there.tower(0);
  LayerPtr norm = batch_norm(scope, {.channels = 8});
  LayerPtr none;
  const LayerPtr layer = gpu_residual(pair.gpu, norm, none);
  ASSERT_NE(layer, nullptr);
  pair.there.pack();
  const Array in = pair.up(spread_array({3, 8}, 3));
  const Array gradient = pair.up(spread_array({3, 8}, 5));
  for (const std::int64_t valid : {3, 1, 0}) {
    layer->forward(in, pair.pass(valid));
    const std::vector<float> back = pair.down(layer->backward(gradient, pair.pass(valid)));
    for (std::size_t i = static_cast<std::size_t>(valid) * 8; i < back.size(); ++i)
      EXPECT_EQ(back[i], 0) << valid;
  }
}

TEST(GpuFusedPasses, OnlyBlocksWhosePathsEndWithANormalisation) {
  Pair pair(*open(Place::fake));
  const Scope scope = pair.there.tower(0);
  LayerPtr body = block(scope / "a", 2, 2);
  LayerPtr none;
  EXPECT_NE(gpu_residual(pair.gpu, body, none), nullptr);
  body = block(scope / "b", 2, 2);
  LayerPtr plain = conv2d(scope / "c", {.in = 2, .out = 2, .initializer = kSome});
  EXPECT_EQ(gpu_residual(pair.gpu, body, plain), nullptr);
  EXPECT_EQ(gpu_residual(pair.gpu, plain, none), nullptr);
  EXPECT_NE(body, nullptr);
  LayerPtr ended = batch_norm(scope / "d", {.channels = 2, .relu = true});
  EXPECT_EQ(gpu_residual(pair.gpu, ended, none), nullptr);
  Gpu other(device({DeviceKind::host, 1}), fake_gpu(), Precision::f32, false);
  EXPECT_EQ(gpu_residual(other, body, none), nullptr);
}

TEST(GpuPool, FirstOfEqualMaximaAndLastNaN) {
  Pair pair(*open(Place::fake));
  const LayerPtr here = pool(pair.here.tower(0) / "p", {Pooling::max, 3, 2, {1, 1}});
  const LayerPtr there = pool(pair.there.tower(0) / "p", {Pooling::max, 3, 2, {1, 1}});
  for (const float special : {1.0F, std::nanf("")}) {
    Array in({1, 6, 6, 1});
    in.fill(1);
    for (const std::size_t at : {7U, 8U, 20U}) in.data()[at] = special;
    const Array gradient = spread_array({1, 3, 3, 1}, 5);
    const Array in_there = pair.up(in);
    const Array gradient_there = pair.up(gradient);
    here->forward(in, skip(1));
    there->forward(in_there, pair.pass(1));
    expect_near(pair.down(there->backward(gradient_there, pair.pass(1))),
                list(here->backward(gradient, skip(1))), 1e-6, "backward");
  }
}

TEST(GpuPool, PlacesOfLargeWindows) {
  Pair pair(*open(Place::fake));
  const PoolOptions options{Pooling::max, 19, 2, {9, 8}};
  const LayerPtr here = pool(pair.here.tower(0) / "p", options);
  const LayerPtr there = pool(pair.there.tower(0) / "p", options);
  const Array in = spread_array({2, 23, 21, 1}, 3);
  const Array in_there = pair.up(in);
  const Array& out = here->forward(in, skip(2));
  const Array gradient = spread_array(out.shape(), 5);
  const Array gradient_there = pair.up(gradient);
  expect_near(pair.down(there->forward(in_there, pair.pass(2))), list(out), 0, "forward");
  expect_near(pair.down(there->backward(gradient_there, pair.pass(2))),
              list(here->backward(gradient, skip(2))), 1e-6, "backward");
}

TEST(GpuPool, PaddingAsLargeAsTheWindow) {
  for (const Padding& padding : {Padding{2, 0}, Padding{0, 2}})
    penstock::test::expect_error(ErrorCode::invalid_argument, "smaller than the window", [&] {
      pooled("p", {1, 4, 4, 1}, {Pooling::max, 2, 2, padding});
    });
}

TEST(GpuPool, WindowsOf256Pixels) {
  Pair pair(*open(Place::fake));
  penstock::test::expect_error(ErrorCode::invalid_argument, "at most 255 pixels a side", [&] {
    pool(pair.there.tower(0) / "p", {Pooling::max, 256, 1});
  });
}

class GpuLosses : public testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(Places, GpuLosses, testing::Values(Place::fake, Place::cuda),
                         [](const auto& made) {
                           return std::string(made.param == Place::cuda ? "cuda" : "fake");
                         });

TEST_P(GpuLosses, AreTheHosts) {
  const auto where = open(GetParam());
  if (!where) GTEST_SKIP() << "no GPU here";
  Pair pair(*where);
  const Array logits = spread_array({4, 7}, 1);
  const Array up = pair.up(logits);
  const std::vector<std::int64_t> labels{3, 0, 6, 99};  // the last row is padding
  SoftmaxLoss here;
  SoftmaxLoss there;
  const auto expected = here.forward(logits, labels, skip(3));
  pair.gpu.clear(pair.gpu.result());
  const auto labels_there = pair.up(labels);
  there.forward(up, labels_there, pair.pass(3));
  EXPECT_THAT(pair.result(), testing::ElementsAre(testing::DoubleNear(expected.loss_sum, 1e-6),
                                                  expected.correct, 0, 0));
  expect_near(pair.down(there.backward()), list(here.backward()), 1e-6, "softmax");
  there.forward(up, labels_there, pair.pass(4));
  EXPECT_EQ(pair.result()[3], 1) << "a label that there is not";
}

TEST_P(GpuLosses, OfVectorsAreTheHosts) {
  const auto where = open(GetParam());
  if (!where) GTEST_SKIP() << "no GPU here";
  Pair pair(*where);
  const Array query = spread_array({4, 5}, 1);
  const Array positive = spread_array({4, 5}, 2);
  const Array negative = spread_array({4, 5}, 3);
  const Array q = pair.up(query);
  const Array p = pair.up(positive);
  const Array n = pair.up(negative);
  TripletLoss triplet(1.5F);
  TripletLoss triplet_there(1.5F);
  auto expected = triplet.forward(query, positive, negative, skip(3));
  pair.gpu.clear(pair.gpu.result());
  triplet_there.forward(q, p, n, pair.pass(3));
  EXPECT_NEAR(pair.result()[0], expected.loss_sum, 1e-9);
  EXPECT_EQ(pair.result()[1], static_cast<double>(expected.correct));
  expect_near(pair.down(triplet_there.query_gradient()), list(triplet.query_gradient()), 1e-6, "q");
  expect_near(pair.down(triplet_there.positive_gradient()), list(triplet.positive_gradient()), 1e-6,
              "p");
  expect_near(pair.down(triplet_there.negative_gradient()), list(triplet.negative_gradient()), 1e-6,
              "n");
  InBatchNegativesLoss others(5);
  InBatchNegativesLoss others_there(5);
  expected = others.forward(query, positive, skip(3));
  pair.gpu.clear(pair.gpu.result());
  others_there.forward(q, p, pair.pass(3));
  EXPECT_NEAR(pair.result()[0], expected.loss_sum, 1e-9);
  EXPECT_EQ(pair.result()[1], static_cast<double>(expected.correct));
  expect_near(pair.down(others_there.query_gradient()), list(others.query_gradient()), 1e-6, "q");
  expect_near(pair.down(others_there.positive_gradient()), list(others.positive_gradient()), 1e-6,
              "p");
}

TEST_P(GpuLosses, EmbeddingAndDecay) {
  const auto where = open(GetParam());
  if (!where) GTEST_SKIP() << "no GPU here";
  for (const bool deterministic : {false, true}) {
    Pair pair(*where, Precision::f32, deterministic);
    EmbeddingBag here(pair.here.tower(0), 5, 3, kSome);
    EmbeddingBag there(pair.there.tower(0), 5, 3, kSome);
    const std::vector<std::int64_t> ids{0, 2, -1, -1, -1, -1, 4, 4, 1};
    expect_near(pair.down(there.forward(pair.up(ids), 3)), list(here.forward(ids, 3)), 1e-6,
                "embedding");
    const Array gradient = spread_array({3, 3}, 7);
    const Array up = pair.up(gradient);
    L2 decay_here;
    L2 decay_there;
    decay_here.add(*pair.here.of(0)[0], 0.5F);
    decay_there.add(*pair.there.of(0)[0], 0.5F);
    pair.gpu.clear(pair.gpu.result());
    EXPECT_EQ(decay_there.forward(pair.pass(3)), 0);
    EXPECT_NEAR(pair.result()[2], decay_here.forward(skip(3)), 1e-6);
    here.backward(gradient);
    decay_here.backward(skip(3));
    there.backward(up);
    decay_there.backward(pair.pass(3));
    expect_near(pair.down(pair.there.of(0)[0]->gradient), list(pair.here.of(0)[0]->gradient), 1e-6,
                "table");
    const std::vector<std::int64_t> wrong{0, 5, 1};
    there.forward(pair.up(wrong), 3);
    EXPECT_EQ(pair.result()[3], 1) << "an id that there is not";
  }
}

}  // namespace
}  // namespace penstock::towers
