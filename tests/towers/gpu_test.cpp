// What towers on GPUs do, with NVIDIA's libraries and our kernels replaced by loops on the host:
// each layer against its form on host devices, whole runs of training, the exchange of gradients.
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
#include "tests/towers/gpu_pair.h"

namespace penstock::towers {
namespace {

using test::block;
using test::expect_near;
using test::kSome;
using test::list;
using test::open;
using test::Pair;
using test::Place;
using test::skip;
using test::spread_array;

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
