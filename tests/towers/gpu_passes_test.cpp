// What layers and updates do in fewer passes over a GPU's memory, beside the passes one by one.
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/pool.h>
#include <penstock/towers/layers/relu.h>
#include <penstock/towers/layers/residual.h>

#include "tests/support/errors.h"
#include "tests/towers/gpu_pair.h"
#include "towers/gpu/layers.h"
#include "towers/train/updater.h"

namespace penstock::towers {
namespace gpu_passes_test {

using test::block;
using test::expect_near;
using test::fake_gpu;
using test::host_store;
using test::kSome;
using test::list;
using test::open;
using test::Pair;
using test::Place;
using test::skip;
using test::spread_array;

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
      dense(store->tower(0) / "fc", {.in = 70, .out = 3, .initializer = kSome});
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

TEST(GpuUpdates, FrozenTablesHaveNoState) {
  Pair pair(*open(Place::fake));
  const Scope scope = pair.there.tower(0);
  scope.get("table", {100}, {Initializer::constant(1), false});
  Variable& trained = scope.get("trained", {10}, {Initializer::constant(1)});
  pair.there.pack();
  trained.has_gradient = true;
  const auto counted = std::make_shared<Counted>(make_optimizer("adam"));
  Updater updater(pair.there, 0, {counted, Schedule::constant(0.1)});
  EXPECT_EQ(updater.slots(0).arrays.size(), 0U);
  EXPECT_EQ(updater.slots(1).arrays.size(), 2U);
  updater.apply(pair.there.of(0), 0);
  EXPECT_EQ(counted->calls, 1);
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
  for (const auto& size : {std::pair<std::int64_t, std::int64_t>{3, 4}, {8, 3}}) {
    const std::int64_t channels = size.first;
    const std::int64_t valid = size.second;
    const Shape shape{4, 3, 5, channels};
    const auto norm = [&](bool inside) {
      return [=](const Scope& scope) {
        auto layers = std::make_unique<Sequential>();
        layers->add(batch_norm(scope, {.channels = channels, .relu = inside}));
        if (!inside) layers->add(relu(scope));
        return layers;
      };
    };
    EXPECT_EQ(made_by(norm(true), shape, valid), made_by(norm(false), shape, valid));
    for (const bool shortcut : {false, true}) {
      const auto make = [&](bool hidden) {
        return [=](const Scope& scope) {
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

}  // namespace gpu_passes_test
}  // namespace penstock::towers
