// Losses, and what texts begin with, against finite differences.
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/towers/layers/embedding_bag.h>
#include <penstock/towers/layers/l2.h>
#include <penstock/towers/layers/similarity.h>
#include <penstock/towers/layers/softmax_loss.h>

#include "tests/support/errors.h"
#include "tests/towers/arrays.h"
#include "towers/gpu/loss_plans.h"
#include "towers/layers/sigmoid_loss.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using test::array_of;
using test::host_store;
using test::list;
using test::skip;
using test::spread_array;

/// Checks a loss of rows against differences in one of its inputs.
void expect_loss_gradient(const std::function<double()>& loss, Array& input,
                          const std::vector<float>& gradient) {
  for (std::size_t i = 0; i < input.size(); ++i) {
    const float old = input.data()[i];
    input.data()[i] = old + 1e-3F;
    const double high = loss();
    input.data()[i] = old - 1e-3F;
    const double low = loss();
    input.data()[i] = old;
    EXPECT_NEAR(gradient[i], (high - low) / 2e-3, 2e-3) << i;
  }
}

// A kernel that asks whether the loss is above zero takes NaN for a row that is right.
TEST(Similarity, NanOfARow) {
  for (int input = 0; input < 3; ++input) {
    std::array<Array, 3> in{spread_array({2, 5}, 1), spread_array({2, 5}, 2),
                            spread_array({2, 5}, 3)};
    in[static_cast<std::size_t>(input)].data()[7] = std::numeric_limits<float>::quiet_NaN();
    std::array<std::vector<float>, 3> out{std::vector<float>(10), std::vector<float>(10),
                                          std::vector<float>(10)};
    std::array<RowResult, 2> results{};
    const TripletPlan<float> plan{in[0].data(),
                                  in[1].data(),
                                  in[2].data(),
                                  nullptr,
                                  out[0].data(),
                                  out[1].data(),
                                  out[2].data(),
                                  results.data(),
                                  5,
                                  2,
                                  1.5};
    TripletLoss host(1.5F);
    EXPECT_TRUE(std::isnan(host.forward(in[0], in[1], in[2], skip(2)).loss_sum));
    for (std::int64_t row = 0; row < 2; ++row) plan(row);
    EXPECT_FALSE(std::isnan(results[0].loss)) << input;
    EXPECT_TRUE(std::isnan(results[1].loss)) << input;
    const std::array expected{list(host.query_gradient()), list(host.positive_gradient()),
                              list(host.negative_gradient())};
    for (std::size_t of = 0; of < 3; ++of) {
      for (std::size_t i = 0; i < 10; ++i)
        EXPECT_EQ(std::isnan(out[of][i]), std::isnan(expected[of][i])) << input << of << i;
    }
  }
}

TEST(Similarity, FiniteDifferences) {
  Array query = spread_array({4, 5}, 1);
  Array positive = spread_array({4, 5}, 2);
  Array negative = spread_array({4, 5}, 3);
  const Pass pass = skip(3);  // the last row is padding
  TripletLoss triplet(1.5F);
  const auto triplet_loss = [&] {
    return triplet.forward(query, positive, negative, pass).loss_sum / 3;
  };
  triplet_loss();
  const auto q = list(triplet.query_gradient());
  const auto p = list(triplet.positive_gradient());
  const auto n = list(triplet.negative_gradient());
  expect_loss_gradient(triplet_loss, query, q);
  expect_loss_gradient(triplet_loss, positive, p);
  expect_loss_gradient(triplet_loss, negative, n);
  InBatchNegativesLoss others(5);
  const auto others_loss = [&] { return others.forward(query, positive, pass).loss_sum / 3; };
  others_loss();
  const auto oq = list(others.query_gradient());
  const auto op = list(others.positive_gradient());
  expect_loss_gradient(others_loss, query, oq);
  expect_loss_gradient(others_loss, positive, op);
  Array zeros({4, 5});
  const TripletLoss::Result nothing = triplet.forward(zeros, positive, negative, pass);
  EXPECT_DOUBLE_EQ(nothing.loss_sum, 3 * 1.5) << "zeros are like nothing";
  EXPECT_EQ(list(triplet.query_gradient()), list(zeros));
}

TEST(SigmoidLoss, WeighsRows) {
  Array logits = array_of({4, 1}, {0.5F, -2, 3, 100});
  const std::vector<std::int64_t> labels{1, 1, 0, 0};
  const std::vector<float> weights{2, 0, 0.5F, 7};
  const Pass pass = skip(3);  // the last row is padding
  SigmoidLoss sigmoid;
  const auto loss = [&] {
    return sigmoid.forward(logits, labels, pass, weights.data()).loss_sum / 3;
  };
  EXPECT_NEAR(loss(), (2 * std::log1p(std::exp(-0.5)) + 0.5 * std::log1p(std::exp(3.0))) / 3, 1e-6);
  expect_loss_gradient(loss, logits, list(sigmoid.backward()));
}

TEST(EmbeddingBag, AveragesWhatIsNamed) {
  VariableStore store = host_store();
  EmbeddingBag bag(store.tower(0), 3, 2, {});
  Variable& table = *store.of(0)[0];
  std::ranges::copy(std::vector<float>{1, 2, 3, 4, 5, 6}, table.value.data());
  const std::vector<std::int64_t> ids{0, 2, -1, -1, -1, -1, 1, 1, -1};
  EXPECT_EQ(list(bag.forward(ids, 3)), (std::vector<float>{3, 4, 0, 0, 3, 4}));
  bag.backward(array_of({3, 2}, {2, 4, 100, 100, 1, 1}));
  EXPECT_EQ(list(table.gradient), (std::vector<float>{1, 2, 1, 1, 1, 2}));
  const std::vector<std::int64_t> wrong{0, 3, 1};
  expect_error(ErrorCode::invalid_argument, "id 3 of sample 1 is not one of 3",
               [&] { bag.forward(wrong, 3); });
}

TEST(SoftmaxLoss, IsTheMeanOverValidRowsAndSaysWhichLabelIsWrong) {
  SoftmaxLoss loss;
  const Array logits = array_of({3, 2}, {0, 0, 3, 1, 9, -9});
  Pass pass = skip(2);
  const auto result = loss.forward(logits, std::vector<std::int64_t>{1, 0, 0}, pass);
  EXPECT_NEAR(result.loss_sum, std::log(2.0) + std::log(1 + std::exp(-2.0)), 1e-6);
  EXPECT_EQ(result.correct, 1);
  const std::vector<float> gradient = list(loss.backward());
  const auto share = static_cast<float>(1 / (1 + std::exp(-2.0)));
  const std::vector<float> expected{0.25F, -0.25F, (share - 1) / 2, (1 - share) / 2, 0, 0};
  EXPECT_THAT(gradient, testing::Pointwise(testing::FloatNear(1e-6F), expected));
  expect_error(ErrorCode::mismatch, "label 2 in row 1 is not one of 2 classes", [&] {
    loss.forward(logits, std::vector<std::int64_t>{1, 2, 0}, pass);
  });
  // Large logits do not overflow.
  const Array large = array_of({1, 2}, {1e30F, -1e30F});
  EXPECT_EQ(loss.forward(large, std::vector<std::int64_t>{0}, skip(1)).loss_sum, 0);
}

TEST(L2, IsHalfTheSquareAndAddsToTheGradient) {
  VariableStore store = host_store();
  Variable& variable = store.tower(0).get("v", {2}, {Initializer::constant(3)});
  L2 decay;
  decay.add(variable, 0.5F);
  EXPECT_DOUBLE_EQ(decay.forward(skip(1)), 0.5 * 0.5 * 18);
  decay.backward(skip(1));
  decay.backward(skip(1));
  EXPECT_EQ(list(variable.gradient), (std::vector<float>{3, 3}));
}

}  // namespace
}  // namespace penstock::towers
