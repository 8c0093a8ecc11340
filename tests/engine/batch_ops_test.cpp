// mixup and cutmix: which rows are mixed, by how much, and what is refused.
#include <gtest/gtest.h>

#include <penstock/batch_ops.h>
#include <penstock/dataset.h>
#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/numbers.h"

namespace penstock {
namespace {

using test::expect_error;
using test::numbers;

/// Image i is all i + 1, of 4 by 6 pixels and 2 channels; its label is i % 3.
Dataset images(std::int64_t count, DType dtype = DType::f32) {
  return numbers(count).map(
      [dtype](Element element) {
        const std::int64_t x = element["x"].item<std::int64_t>();
        const std::vector<float> values(48, static_cast<float>(x + 1));
        Tensor image = Tensor::of<float>({4, 6, 2}, values);
        if (dtype == DType::u8) {
          image = Tensor::of<std::uint8_t>(
              {4, 6, 2}, std::vector<std::uint8_t>(48, static_cast<std::uint8_t>(x + 1)));
        }
        return Element({{"image", image}, {"label", Tensor::scalar(x % 3)}});
      },
      {.output = Spec({{"image", dtype, {4, 6, 2}}, {"label", DType::i64, {}}})});
}

std::vector<Element> all_of(const Dataset& dataset, RunOptions options = {}) {
  std::vector<Element> all;
  Iterator iterator = dataset.iterate(options);
  for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
    all.push_back(*next);
  }
  return all;
}

TEST(Mixup, MixesEachRowWithTheOneInFront) {
  const Dataset dataset = images(9).batch(4).map_op(mixup({.classes = 3}));
  EXPECT_EQ(dataset.spec().to_string(), "{image: f32 [?,4,6,2], label: f32 [?,3]}");
  std::vector<float> shares;
  std::int64_t first = 0;
  for (const Element& batch : all_of(dataset, {.seed = 1})) {
    const std::int64_t rows = batch.valid_rows;
    const float share =
        rows == 1 ? 1 : batch["image"][1].to_vector<float>()[0] - static_cast<float>(first + 1);
    shares.push_back(share);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t other = (row + rows - 1) % rows;
      const float expected = share * static_cast<float>(first + row + 1) +
                             (1 - share) * static_cast<float>(first + other + 1);
      for (const float value : batch["image"][row].to_vector<float>()) {
        EXPECT_NEAR(value, expected, 1e-4);
      }
      std::vector<float> label(3);
      label[static_cast<std::size_t>((first + row) % 3)] += share;
      label[static_cast<std::size_t>((first + other) % 3)] += 1 - share;
      const std::vector<float> got = batch["label"][row].to_vector<float>();
      for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], label[i], 1e-4);
    }
    first += rows;
  }
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_NE(shares[0], shares[1]);
}

TEST(Mixup, DrawsItsSharesFromBeta) {
  for (const double alpha : {0.2, 1.0, 4.0}) {
    const Dataset dataset = numbers({0, 1}).repeat(4000).map(
        [](Element element) {
          const auto x = element["x"].item<std::int64_t>();
          return Element(
              {{"image", Tensor::scalar(static_cast<float>(x))}, {"label", element["x"]}});
        },
        {.output = Spec({{"image", DType::f32, {}}, {"label", DType::i64, {}}})});
    double sum = 0;
    double squares = 0;
    const std::vector<Element> batches =
        all_of(dataset.batch(2).map_op(mixup({.alpha = alpha, .classes = 2})), {.seed = 5});
    for (const Element& batch : batches) {
      const double share = batch["image"].to_vector<float>()[1];
      sum += share;
      squares += share * share;
    }
    const auto count = static_cast<double>(batches.size());
    const double mean = sum / count;
    const double variance = squares / count - mean * mean;
    EXPECT_NEAR(mean, 0.5, 0.03) << alpha;
    EXPECT_NEAR(variance, 1 / (4 * (2 * alpha + 1)), 0.01) << alpha;
  }
}

TEST(Mixup, TakesLabelsThatAreSharesAlready) {
  const Dataset once = images(4).batch(4).map_op(mixup({.classes = 3}));
  const Dataset twice = once.map_op(mixup({}));
  EXPECT_EQ(twice.spec(), once.spec());
  for (const Element& batch : all_of(twice)) {
    for (std::int64_t row = 0; row < 4; ++row) {
      float sum = 0;
      for (const float share : batch["label"][row].to_vector<float>()) sum += share;
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
}

TEST(Cutmix, CopiesABoxAndMixesLabelsByItsArea) {
  for (const bool chw : {false, true}) {
    Dataset source = images(200, DType::u8);
    if (chw) {
      source = source.map(
          [](Element element) {
            element["image"] = element["image"].reshape({2, 4, 6});
            return element;
          },
          {.output = Spec({{"image", DType::u8, {2, 4, 6}}, {"label", DType::i64, {}}})});
    }
    const Dataset dataset = source.batch(2).map_op(cutmix({.classes = 3}, chw));
    bool mixed = false;
    std::int64_t first = 0;
    for (const Element& batch : all_of(dataset, {.seed = 2})) {
      for (std::int64_t row = 0; row < 2; ++row) {
        const auto own = static_cast<std::uint8_t>(first + row + 1);
        const auto other = static_cast<std::uint8_t>(first + 1 - row + 1);
        std::int64_t copied = 0;
        const std::vector<std::uint8_t> pixels = batch["image"][row].to_vector<std::uint8_t>();
        for (const std::uint8_t value : pixels) {
          EXPECT_TRUE(value == own || value == other);
          copied += value == other ? 1 : 0;
        }
        mixed = mixed || (copied > 0 && copied < 48);
        const float share = 1 - static_cast<float>(copied) / 48;
        const std::vector<float> label = batch["label"][row].to_vector<float>();
        EXPECT_NEAR(label[static_cast<std::size_t>((first + row) % 3)], share, 1e-5);
        EXPECT_NEAR(label[static_cast<std::size_t>((first + 1 - row) % 3)], 1 - share, 1e-5);
      }
      first += 2;
    }
    EXPECT_TRUE(mixed);
  }
}

TEST(BatchMix, IsTheSameForAnyThreadsAndLeavesItsInputAlone) {
  const Dataset cached = images(12).batch(4).cache();
  for (const WorkOpPtr& op : {mixup({.classes = 3}), cutmix({.classes = 3})}) {
    const Dataset dataset = cached.map_op(op).repeat(2);
    const std::vector<Element> one = all_of(dataset, {.seed = 3, .threads = 1});
    const std::vector<Element> many = all_of(dataset, {.seed = 3, .threads = 8});
    ASSERT_EQ(one.size(), 6U);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i]["image"].to_vector<float>(), many[i]["image"].to_vector<float>());
      EXPECT_EQ(one[i]["label"].to_vector<float>(), many[i]["label"].to_vector<float>());
    }
    for (const Element& batch : all_of(cached.repeat(2).skip(3))) {
      const float value = batch["image"].to_vector<float>()[0];
      EXPECT_EQ(value, std::round(value));
    }
  }
}

TEST(BatchMix, RefusesWhatDoesNotFit) {
  for (const double alpha : {0.0, -1.0, std::nan("")}) {
    expect_error(ErrorCode::invalid_argument, "alpha", [&] { (void)mixup({.alpha = alpha}); });
  }
  expect_error(ErrorCode::invalid_argument, "classes", [] { (void)cutmix({.classes = -1}); });
  const Dataset bytes = images(4, DType::u8).batch(2);
  expect_error(ErrorCode::invalid_argument, "floating",
               [&] { (void)bytes.map_op(mixup({.classes = 3})); });
  expect_error(ErrorCode::invalid_argument, "label",
               [&] { (void)images(4).batch(2).map_op(mixup({})); });
  expect_error(ErrorCode::invalid_argument, "photo",
               [&] { (void)bytes.map_op(cutmix({.classes = 3, .image = "photo"})); });
  expect_error(ErrorCode::invalid_argument, "height", [&] {
    (void)numbers(4).enumerate(0, "label").batch(2).map_op(cutmix({.classes = 3, .image = "x"}));
  });
}

TEST(BatchMix, LabelOutOfRange) {
  const std::vector<Error> errors = test::errors(images(6).batch(3).map_op(mixup({.classes = 2})));
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_EQ(errors[0].code(), ErrorCode::mismatch);
  EXPECT_NE(std::string(errors[0].what()).find("label 2"), std::string::npos);
  EXPECT_NE(errors[0].where().stage.find("mixup"), std::string::npos);
}

}  // namespace
}  // namespace penstock
