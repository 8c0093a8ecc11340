// Stages that look at values: unique, scan, rejection_resample and ignore_errors.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::expect_error;
using test::expect_over_inputs;
using test::expect_vectors;
using test::failing_at;
using test::iota;
using test::numbers;
using test::run;
using test::x_element;
using test::x_of;
using test::x_spec;

Dataset floats(const std::vector<float>& values) {
  return numbers(static_cast<std::int64_t>(values.size()))
      .map(
          [values](Element element) {
            return Element(
                {{"y", Tensor::scalar(values[static_cast<std::size_t>(x_of(element))])}});
          },
          {.output = Spec({{"y", DType::f32, Shape()}})});
}

Dataset texts(const std::vector<std::string>& values) {
  return numbers(static_cast<std::int64_t>(values.size()))
      .map(
          [values](Element element) {
            return Element(
                {{"t", Tensor::copy_bytes(values[static_cast<std::size_t>(x_of(element))])}});
          },
          {.output = Spec({{"t", DType::bytes, Shape()}})});
}

TEST(Unique, KeepsFirstOccurrences) {
  const auto unique = [](Dataset d) { return d.unique(); };
  expect_over_inputs("some", {1, 37, 2, 37, 2, 1}, unique, "1 37 2");
  expect_over_inputs("all alike", {5, 5, 5}, unique, "5");
  expect_over_inputs("none alike", iota(5), unique, "0 1 2 3 4");
  expect_over_inputs("nothing", {}, unique, "");
  const std::string long_text(100, 'x');
  expect_vectors({
      {"texts", texts({"a", "b", "a", "", long_text, long_text, "ab", ""}).unique(),
       "a b \"\" " + long_text + " ab"},
      {"each pass anew", numbers({1, 1, 2}).unique().repeat(2), "1 2 1 2"},
      {"over passes", numbers({1, 1, 2}).repeat(2).unique(), "1 2"},
      {"of components", numbers({4, 4, 6}).enumerate().unique({"x"}), "(4, 0) (6, 2)"},
      {"of all components", numbers({4, 4}).enumerate().unique(), "(4, 0) (4, 1)"},
      {"errors pass", failing_at(numbers({1, 2, 1, 3}), 2).unique(), "1 E 3"},
  });
}

TEST(Unique, TellsValuesApartBitByBit) {
  expect_vectors({{"-0 is not 0", floats({0.0F, -0.0F, 0.0F}).unique(), "0 -0"}});
}

TEST(Unique, EndsWithAnErrorWhenTheBudgetIsFull) {
  std::vector<std::string> many;
  for (int i = 0; i < 200; ++i) many.push_back(std::string(200, 'a') + std::to_string(i));
  const Dataset dataset = texts(many).unique();
  const std::vector<Error> errors = test::errors(dataset, {.memory_bytes = 1U << 14});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].code(), ErrorCode::resource_exhausted);
  EXPECT_NE(errors[0].where().stage.find("unique"), std::string::npos);
  EXPECT_TRUE(test::errors(dataset, {.memory_bytes = 1U << 20}).empty());
  EXPECT_EQ(test::errors(dataset, {.memory_bytes = 1U << 14, .on_error = OnError::skip}).size(), 1U)
      << "it is no element's fault, so it is not skipped";
}

TEST(Unique, RefusesAComponentThatThereIsNot) {
  expect_error(ErrorCode::invalid_argument, "'y'", [] { (void)numbers(2).unique({"y"}); });
}

std::pair<Element, Element> sum(const Element& state, const Element& element) {
  const Element next = x_element(x_of(state) + x_of(element));
  return {next, next};
}

TEST(Scan, RunsAStateThroughTheElements) {
  const auto running = [](Dataset d) { return d.scan(x_element(0), sum); };
  expect_over_inputs("sum", iota(10), running, "0 1 3 6 10 15 21 28 36 45");
  expect_over_inputs("nothing", {}, running, "");
  expect_vectors({
      {"each pass anew", numbers(3).scan(x_element(0), sum).repeat(2), "0 1 3 0 1 3"},
      {"over passes", numbers(3).repeat(2).scan(x_element(0), sum), "0 1 3 3 4 6"},
      {"errors leave the state", failing_at(numbers(5), 2).scan(x_element(0), sum), "0 1 E 4 8"},
  });
}

TEST(Scan, MayMakeOtherElements) {
  const auto count = [](const Element& state, const Element& element) {
    if (x_of(element) == 2) throw std::runtime_error("not this one");
    const Element next = x_element(x_of(state) + 1);
    return std::pair(next, Element({{"n", state["x"]}}));
  };
  const Spec output({{"n", DType::i64, Shape()}});
  const Dataset dataset = numbers(5).scan(x_element(0), count, {.output = output});
  EXPECT_EQ(dataset.spec(), output);
  expect_vectors({{"what throws leaves the state", dataset, "0 1 E 2 3"}});
  const std::vector<Error> errors = test::errors(dataset);
  EXPECT_EQ(errors[0].where().index, 2);
  EXPECT_NE(errors[0].where().stage.find("scan"), std::string::npos);
}

TEST(Scan, ChecksResults) {
  const auto wrong_output = [](const Element& state, const Element&) {
    return std::pair(state, Element({{"y", Tensor::scalar<std::int64_t>(1)}}));
  };
  const auto wrong_state = [](const Element&, const Element& element) {
    return std::pair(Element(), element);
  };
  EXPECT_EQ(run(numbers(2).scan(x_element(0), wrong_output)), "E E");
  EXPECT_EQ(run(numbers(2).scan(x_element(0), wrong_state)), "E E");
  EXPECT_THROW((void)numbers(2).scan(x_element(0), ScanFn()), Error);
}

std::array<double, 3> shares_of(const Dataset& dataset, std::size_t count) {
  std::array<double, 3> shares{};
  Iterator iterator = dataset.iterate({.seed = 7});
  for (std::size_t i = 0; i < count; ++i) {
    const Element element = *iterator.next();
    ++shares.at(static_cast<std::size_t>(element["class"].item<std::int64_t>()));
  }
  for (double& share : shares) share /= static_cast<double>(count);
  return shares;
}

/// Of ten elements five are of class 0, three of class 1 and two of class 2.
std::int64_t class_of(const Element& element) {
  const std::int64_t last = x_of(element) % 10;
  return last < 5 ? 0 : last < 8 ? 1 : 2;
}

TEST(RejectionResample, ComesToTheTarget) {
  const std::vector<double> target{0.1, 0.3, 0.6};
  for (const std::vector<double>& initial : {std::vector<double>{}, {0.5, 0.3, 0.2}}) {
    const Dataset dataset =
        numbers(10).repeat().rejection_resample(class_of, target, {.initial = initial});
    const std::array<double, 3> shares = shares_of(dataset, 2000);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(shares.at(i), target[i], 0.045) << i;
  }
}

TEST(RejectionResample, ChangesNothingThatIsAsWanted) {
  const Dataset dataset = numbers(6).rejection_resample(
      [](const Element& e) { return x_of(e) % 2; }, {0.7, 0.3}, {.initial = {0.7, 0.3}});
  expect_vectors({{"", dataset, "(0, 0) (1, 1) (0, 2) (1, 3) (0, 4) (1, 5)"}});
}

TEST(RejectionResample, FiniteInputs) {
  const Dataset none = numbers(100).rejection_resample([](const Element&) { return 0; }, {0, 1});
  expect_vectors({{"a class that is not wanted", none, ""}});
  const Dataset some = numbers(1000).rejection_resample(class_of, {1, 1, 1});
  const std::size_t count = test::values(some).size();
  EXPECT_GT(count, 400U);
  EXPECT_LT(count, 800U);
}

TEST(RejectionResample, ErrorsOfElements) {
  const Dataset dataset =
      failing_at(numbers(4), 1)
          .rejection_resample([](const Element& e) { return x_of(e) == 2 ? 9 : 0; }, {1});
  expect_vectors({{"fail", dataset, "(0, 0) E E (0, 3)"}});
}

TEST(RejectionResample, RefusesWrongShares) {
  const auto wrong = [](std::vector<double> target, ResampleOptions options = {}) {
    expect_error(ErrorCode::invalid_argument, "",
                 [&] { (void)numbers(2).rejection_resample(class_of, target, options); });
  };
  wrong({});
  wrong({0, 0});
  wrong({1, -1});
  wrong({1, NAN});
  wrong({1, 1}, {.initial = {1}});
  wrong({1, 1}, {.initial = {1, 0}});
  wrong({1}, {.component = "x"});
  expect_error(ErrorCode::invalid_argument, "empty",
               [] { (void)numbers(2).rejection_resample({}, {1}); });
}

TEST(IgnoreErrors, LeavesThemOut) {
  const Dataset checked = floats({1, 2, 3, NAN, 5}).map([](Element element) {
    if (std::isnan(element["y"].item<float>())) throw std::runtime_error("not a number");
    return element;
  });
  expect_vectors({
      {"tf.data's", checked.ignore_errors(), "1 2 3 5"},
      {"behind prefetch", checked.prefetch(2).ignore_errors(), "1 2 3 5"},
      {"behind batch", failing_at(numbers(5), 2).batch(2).ignore_errors(), "0 1 | 3 4"},
      {"in front of batch", failing_at(numbers(5), 2).ignore_errors().batch(2), "0 1 | 3 4"},
      {"of a shard", failing_at(numbers(12), 3).shard(3, 0).ignore_errors(), "0 6 9"},
      {"only those in front", failing_at(failing_at(numbers(4), 1).ignore_errors(), 2), "0 E 3"},
      {"all", failing_at(numbers(1), 0).ignore_errors(), ""},
  });
  const Dataset nan_batch = floats({1, 2, NAN, 4, 5}).map([](Element element) {
    if (std::isnan(element["y"].item<float>())) throw std::runtime_error("not a number");
    return element;
  });
  expect_vectors({{"a batch with a bad one", nan_batch.batch(2).ignore_errors(), "1 2 | 4 5"}});
}

TEST(IgnoreErrors, KeepsTuplesAligned) {
  const Dataset inverse = numbers({1, 2, 0, 4}).map([](Element element) {
    if (x_of(element) == 0) throw std::runtime_error("division by zero");
    return element;
  });
  EXPECT_EQ(run(inverse.enumerate().ignore_errors()), "(1, 0) (2, 1) (4, 3)");
}

TEST(IgnoreErrors, CountsAndSaysThem) {
  test::LogCapture log;
  Iterator iterator = failing_at(numbers(4), 1).ignore_errors(true).iterate();
  while (iterator.next().has_value()) {
  }
  EXPECT_EQ(iterator.stats().errors.count, 1U);
  EXPECT_EQ(log.count("bad element"), 1U);
}

TEST(IgnoreErrors, DoesNotHideThatMemoryIsShort) {
  const Dataset large = numbers(1).map([](const Element&, Element& out, Rng&) { (void)out; },
                                       {.output = Spec({{"big", DType::u8, {1 << 20}}})});
  const std::vector<Error> errors = test::errors(large.ignore_errors(), {.memory_bytes = 1U << 16});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].code(), ErrorCode::resource_exhausted);
}

}  // namespace
}  // namespace penstock
