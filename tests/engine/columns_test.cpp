// Maps whose elements are taken many at a time: what comes out is what elements made one by one
// give, however the engine cuts. Batch-wise maps.
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/penstock.h>

#include "tests/support/numbers.h"
#include "tests/support/sanitizer.h"

namespace penstock {
namespace columns_test {

using test::run;

/// Squares, many at a time; counts calls and elements, and fails wherever `bad` is among them.
struct Squares {
  std::atomic<int>* calls = nullptr;
  std::int64_t bad = -1;

  void operator()(const Element& in, Element& out) const {
    if (calls != nullptr) calls->fetch_add(1);
    const auto values = in["value"].values<std::int64_t>();
    const auto squares = out["value"].mutable_values<std::int64_t>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == bad) throw std::runtime_error("no square of " + std::to_string(bad));
      squares[i] = values[i] * values[i];
    }
  }
};

Element square(Element element) {
  const auto value = element["value"].item<std::int64_t>();
  element["value"] = Tensor::scalar(value * value);
  return element;
}

Element same(Element element) {
  return element;
}

struct Case {
  std::string name;
  Dataset (*make)(const Dataset& mapped);
};

class Columns : public testing::TestWithParam<Case> {};

TEST_P(Columns, EqualMapsOfSingleElements) {
  const std::int64_t many = test::kAddressSanitizer ? 600 : 5000;
  for (const std::int64_t count :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{63}, std::int64_t{64}, std::int64_t{65},
        std::int64_t{511}, std::int64_t{512}, std::int64_t{513}, many}) {
    for (const int threads : {1, 2, 8}) {
      if (test::kAddressSanitizer && threads == 2) continue;  // takes as long, and is like 8
      const RunOptions options{.seed = 5, .threads = threads, .memory_bytes = 8 << 20};
      EXPECT_EQ(run(GetParam().make(range(count).map_batchwise(Squares{})), options),
                run(GetParam().make(test::map_one_by_one(range(count), square)), options))
          << count << " elements, " << threads << " threads";
      EXPECT_EQ(run(GetParam().make(range(count).map(square)), options),
                run(GetParam().make(test::map_one_by_one(range(count), square)), options))
          << count << " elements, " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, Columns,
    testing::Values(Case{"batch", [](const Dataset& d) { return d.batch(100); }},
                    Case{"large_batch", [](const Dataset& d) { return d.batch(2000); }},
                    Case{"batch_of_one", [](const Dataset& d) { return d.batch(1); }},
                    Case{"dropped_remainder",
                         [](const Dataset& d) { return d.batch(7, {.drop_remainder = true}); }},
                    Case{"values", [](const Dataset& d) { return d; }},
                    Case{"shuffled", [](const Dataset& d) { return d.shuffle().batch(10); }},
                    Case{"repeated", [](const Dataset& d) { return d.repeat(2).batch(10); }},
                    Case{"behind_a_map", [](const Dataset& d) { return d.map(same).batch(10); }},
                    Case{"chained",
                         [](const Dataset& d) {
                           return d.take(30).map_batchwise(Squares{}).batch(7);
                         }},
                    Case{"filtered",
                         [](const Dataset& d) {
                           return d
                               .filter([](const Element& e) {
                                 return e["value"].item<std::int64_t>() % 3 == 0;
                               })
                               .batch(10);
                         }}),
    [](const auto& test) { return test.param.name; });

TEST(ColumnCalls, TakeManyElements) {
  std::atomic<int> calls{0};
  const Dataset batches = range(100000).map_batchwise(Squares{.calls = &calls}).batch(1000);
  Iterator iterator = batches.iterate({.threads = 1});
  while (iterator.next().has_value()) {
  }
  EXPECT_LT(calls.load(), 2000);
}

TEST(ColumnCalls, TakeManyBehindOtherMapsToo) {
  std::atomic<int> calls{0};
  const Dataset batches =
      range(10000).map(same).map_batchwise(Squares{.calls = &calls}).batch(1000);
  Iterator iterator = batches.iterate({.threads = 1});
  while (iterator.next().has_value()) {
  }
  EXPECT_LT(calls.load(), 1000);
}

TEST(ColumnErrors, BadElement) {
  for (const bool behind_a_map : {false, true}) {
    for (const std::int64_t bad : {0, 77, 511, 1999}) {
      const Dataset numbers = behind_a_map ? range(2000).map(same) : range(2000);
      const Dataset batches =
          numbers.map_batchwise(Squares{.bad = bad}, {.name = "squares"}).batch(64);
      const auto reference =
          numbers.filter([bad](const Element& e) { return e["value"].item<std::int64_t>() != bad; })
              .map(square)
              .batch(64);
      EXPECT_EQ(run(batches, {.threads = 2, .on_error = OnError::skip}),
                run(reference, {.threads = 2}))
          << bad;
      const std::vector<Error> errors = test::errors(batches, {.threads = 2});
      ASSERT_EQ(errors.size(), 1U) << bad;
      EXPECT_EQ(errors[0].code(), ErrorCode::user);
      EXPECT_EQ(errors[0].where().index, bad);
      EXPECT_EQ(errors[0].cause(), "no square of " + std::to_string(bad));
      EXPECT_NE(errors[0].where().stage.find("squares"), std::string::npos);
    }
  }
}

TEST(ColumnErrors, ExactCounts) {
  const Dataset batches =
      range(2000).map_batchwise(Squares{.bad = 77}, {.name = "squares"}).batch(64);
  Iterator iterator = batches.iterate({.threads = 1, .on_error = OnError::skip});
  while (iterator.next().has_value()) {
  }
  std::uint64_t squares = 0;
  for (const StageStats& stage : iterator.stats().stages) {
    if (stage.name.find("squares") != std::string::npos) squares = stage.items;
  }
  EXPECT_EQ(squares, 1999U);
}

TEST(ColumnResults, MayReplaceTheirComponents) {
  const Dataset doubled = range(1000)
                              .map_batchwise(
                                  [](const Element& in, Element& out) {
                                    std::vector<float> values;
                                    for (const auto value : in["value"].values<std::int64_t>()) {
                                      values.push_back(static_cast<float>(value) / 2);
                                    }
                                    const Shape shape({static_cast<std::int64_t>(values.size())});
                                    out["half"] = Tensor::of<float>(shape, values);
                                  },
                                  {.output = Spec({{"half", DType::f32, {}}})})
                              .batch(1000);
  Iterator iterator = doubled.iterate();
  Next batch = iterator.next();
  ASSERT_TRUE(batch.has_value());
  const auto halves = (*batch)["half"].values<float>();
  ASSERT_EQ(halves.size(), 1000U);
  for (std::size_t i = 0; i < halves.size(); ++i) EXPECT_EQ(halves[i], static_cast<float>(i) / 2);
}

TEST(ColumnResults, MayBeExchanged) {
  const auto exchange = [](const Element& in, Element& out) {
    const auto values = in["value"].values<std::int64_t>();
    const auto a = out["a"].mutable_values<std::int64_t>();
    const auto b = out["b"].mutable_values<std::int64_t>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      a[i] = values[i];
      b[i] = -values[i];
    }
    std::swap(out["a"], out["b"]);
  };
  const Spec two({{"a", DType::i64, {}}, {"b", DType::i64, {}}});
  const Dataset exchanged = range(1000).map_batchwise(exchange, {.output = two});
  for (const Dataset& dataset : {exchanged, test::map_one_by_one(exchanged, same)}) {
    Iterator iterator = dataset.batch(1000).iterate();
    Next batch = iterator.next();
    ASSERT_TRUE(batch.has_value());
    for (std::int64_t i = 0; i < 1000; ++i) {
      EXPECT_EQ((*batch)["a"][i].item<std::int64_t>(), -i);
      EXPECT_EQ((*batch)["b"][i].item<std::int64_t>(), i);
    }
  }
}

TEST(ColumnResults, OfAnotherShapeAreRefused) {
  const Dataset wrong =
      range(10)
          .map_batchwise(
              [](const Element&, Element& out) { out["value"] = Tensor::scalar<std::int64_t>(1); },
              {.name = "wrong"})
          .batch(5);
  const std::vector<Error> errors = test::errors(wrong, {.on_error = OnError::fail});
  ASSERT_FALSE(errors.empty());
  EXPECT_EQ(errors[0].code(), ErrorCode::user);
  EXPECT_NE(errors[0].cause().find("'wrong' does not fit its spec"), std::string::npos)
      << errors[0].what();
}

TEST(ColumnSources, RowsOfTensors) {
  std::vector<float> values(600 * 6);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Element columns(
      {{"image", Tensor::of<float>({600, 2, 3}, values)},
       {"label", Tensor::of<std::int64_t>({600}, std::vector<std::int64_t>(600, 7))}});
  const auto negate = [](const Element& in, Element& out) {
    const auto from = in["image"].values<float>();
    const auto to = out["image"].mutable_values<float>();
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = -from[i];
    out["label"] = in["label"];
  };
  Iterator iterator =
      tensors(columns).shuffle().map_batchwise(negate).batch(64).iterate({.seed = 3});
  double sum = 0;
  std::int64_t labels = 0;
  for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
    for (const float value : (*next)["image"].values<float>()) sum += value;
    for (const std::int64_t label : (*next)["label"].values<std::int64_t>()) labels += label;
  }
  EXPECT_EQ(sum, -static_cast<double>(values.size()) * static_cast<double>(values.size() - 1) / 2);
  EXPECT_EQ(labels, 7 * 600);
}

TEST(ColumnSpecs, MustBeOfFixedSize) {
  const auto nothing = [](const Element&, Element&) {};
  const Dataset texts = from_element(Element({{"text", Tensor::copy_bytes("a")}}));
  EXPECT_THROW(texts.map_batchwise(nothing), Error);
  EXPECT_THROW(range(3).map_batchwise(nothing, {.output = Spec({{"x", DType::f32, {-1}}})}), Error);
  EXPECT_THROW(range(3).map_batchwise(BatchFn()), Error);
}

TEST(ColumnSpecs, MustHaveAComponent) {
  const auto nothing = [](const Element&, Element&) {};
  const auto none = [](Element) { return Element(); };
  EXPECT_THROW(range(3).map_batchwise(nothing, {.output = Spec()}), Error);
  EXPECT_THROW(range(3).map(none, {.output = Spec()}).map_batchwise(nothing), Error);
}

}  // namespace columns_test
}  // namespace penstock
