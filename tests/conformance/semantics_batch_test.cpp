// tf.data's documented results of batch, padded_batch and unbatch.
#include <gtest/gtest.h>

#include <penstock/sources.h>

#include "tests/support/errors.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::expect_error;
using test::expect_over_inputs;
using test::expect_vectors;
using test::iota;
using test::numbers;
using test::run;
using test::stream;
using test::x_of;

Tensor vector_of(std::vector<std::int64_t> values) {
  return Tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

Spec rows_spec(const Shape& shape, DType dtype = DType::i64) {
  return Spec({{"x", dtype, shape}});
}

/// Vectors whose length is only known when they are there.
Dataset ragged(std::vector<std::vector<std::int64_t>> rows) {
  return numbers(static_cast<std::int64_t>(rows.size()))
      .map(
          [rows = std::move(rows)](Element element) {
            return Element({{"x", vector_of(rows[static_cast<std::size_t>(x_of(element))])}});
          },
          {.name = "ragged", .output = rows_spec({Shape::kUnknown})});
}

/// x repeated x times, for each x.
Dataset runs_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::vector<std::int64_t>> rows;
  for (const std::int64_t n : lengths) rows.emplace_back(static_cast<std::size_t>(n), n);
  return ragged(rows);
}

TEST(Batch, GroupsNeighbours) {
  const auto batch = [](std::int64_t size, bool drop = false) {
    return [=](Dataset d) { return d.batch(size, {.drop_remainder = drop}); };
  };
  expect_over_inputs("3", iota(8), batch(3), "0 1 2 | 3 4 5 | 6 7");
  expect_over_inputs("3, drop", iota(8), batch(3, true), "0 1 2 | 3 4 5");
  expect_over_inputs("exactly", iota(6), batch(3), "0 1 2 | 3 4 5");
  expect_over_inputs("exactly, drop", iota(6), batch(3, true), "0 1 2 | 3 4 5");
  expect_over_inputs("one short", iota(2), batch(3), "0 1");
  expect_over_inputs("one short, drop", iota(2), batch(3, true), "");
  expect_over_inputs("one over", iota(4), batch(3), "0 1 2 | 3");
  expect_over_inputs("of one", iota(3), batch(1), "0 | 1 | 2");
  expect_over_inputs("larger than all", iota(3), batch(100), "0 1 2");
  expect_over_inputs("of nothing", {}, batch(3), "");
  expect_over_inputs("of nothing, drop", {}, batch(3, true), "");
  expect_over_inputs(
      "of batches", iota(5), [](Dataset d) { return d.batch(2).batch(2); }, "[0 1] [2 3] | [4]");
}

TEST(Batch, SaysHowManyRowsAreValid) {
  Iterator iterator = numbers(5).batch(3).iterate();
  EXPECT_EQ(iterator.next()->valid_rows, 3);
  const Element last = *iterator.next();
  EXPECT_EQ(last.valid_rows, 2);
  EXPECT_EQ(last[0].dim(0), 2);
}

TEST(Batch, KnowsItsRowsOnlyWhenTheRemainderIsDropped) {
  EXPECT_EQ(numbers(8).batch(3).spec()[0].shape, Shape{Shape::kUnknown});
  EXPECT_EQ(numbers(8).batch(3, {.drop_remainder = true}).spec()[0].shape, Shape{3});
  EXPECT_EQ(numbers(8).batch(3).cardinality(), 3);
  EXPECT_EQ(numbers(8).batch(3, {.drop_remainder = true}).cardinality(), 2);
  EXPECT_EQ(numbers(8).padded_batch(INT64_MAX).cardinality(), 1);
  EXPECT_EQ(numbers(0).padded_batch(INT64_MAX).cardinality(), 0);
  EXPECT_EQ(numbers(8).padded_batch(INT64_MAX, {.drop_remainder = true}).cardinality(), 0);
}

TEST(Batch, RefusesASizeThatIsNotPositive) {
  for (const std::int64_t size : {0, -1, -8}) {
    expect_error(ErrorCode::invalid_argument, "batch: ", [&] {
      try {
        (void)numbers(3).batch(size);
      } catch (const Error& error) {
        throw Error(error.code(), error.where().stage + ": " + error.cause());
      }
    });
    expect_error(ErrorCode::invalid_argument, "positive",
                 [&] { (void)numbers(3).padded_batch(size); });
  }
}

TEST(Batch, UnequalShapes) {
  const Dataset dataset = ragged({{1, 1, 1}, {1, 1, 1}, {1, 1, 1, 1}, {5}, {5}}).batch(3);
  expect_vectors({{"ragged", dataset, "E | [5] [5]"}});
  const std::vector<Error> errors = test::errors(dataset);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].code(), ErrorCode::mismatch);
  const std::string text = errors[0].what();
  EXPECT_NE(text.find("Cannot batch tensors with different shapes in component 0"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("First element had shape [3] and element 2 had shape [4]"), std::string::npos)
      << text;
  // The record that does not fit.
  EXPECT_EQ(errors[0].where().shard, "numbers");
  EXPECT_EQ(errors[0].where().index, 2);
  EXPECT_EQ(errors[0].where().offset, 16);
  EXPECT_NE(errors[0].where().stage.find("batch"), std::string::npos);
}

TEST(Batch, OfElementsWithoutValues) {
  const Dataset empty = numbers(3).map(
      [](Element) {
        return Element({{"x", vector_of({})}});
      },
      {.output = rows_spec({0})});
  expect_vectors({{"batch", empty.batch(2), "[-] [-] | [-]"},
                  {"padded", empty.padded_batch(2), "[-] [-] | [-]"},
                  {"back", empty.batch(2).unbatch(), "- - -"}});
}

TEST(Batch, OfByteStringsAndTuples) {
  const std::vector<std::string_view> words{"a", "", "ccc", "dd", std::string_view("e\0f", 3)};
  Element columns({{"word", Tensor::of_bytes(words)},
                   {"pair", Tensor::of<float>({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})},
                   {"flag", Tensor::of<std::uint8_t>({5}, {1, 0, 1, 0, 1})}});
  const Dataset dataset{make_tensors_source(columns)};
  expect_vectors({
      {"batch", dataset.take(3).batch(2), "(a \"\", [1 2] [3 4], 1 0) | (ccc, [5 6], 1)"},
      {"back", dataset.take(3).batch(2).unbatch(), "(a, 1 2, 1) (\"\", 3 4, 0) (ccc, 5 6, 1)"},
      {"padded", dataset.take(3).padded_batch(2, {.shapes = {Shape(), Shape{3}, Shape()}}),
       "(a \"\", [1 2 0] [3 4 0], 1 0) | (ccc, [5 6 0], 1)"},
  });
  const Element last = *dataset.skip(4).batch(1).iterate().next();
  EXPECT_EQ(last["word"].bytes_at(0), std::string_view("e\0f", 3));
}

TEST(Batch, InsideNestedDatasets) {
  const auto fn = [](const Element& element) { return numbers(x_of(element)).batch(2); };
  expect_vectors({{"flat_map", numbers(5).flat_map(fn, rows_spec({Shape::kUnknown})),
                   "0 | 0 1 | 0 1 | 2 | 0 1 | 2 3"}});
}

TEST(PaddedBatch, PadsToTheLongest) {
  const Dataset input = runs_of({1, 2, 3, 4});
  expect_vectors({
      {"default", input.padded_batch(2), "[1 0] [2 2] | [3 3 3 0] [4 4 4 4]"},
      {"to 5", input.padded_batch(2, {.shapes = {Shape{5}}}),
       "[1 0 0 0 0] [2 2 0 0 0] | [3 3 3 0 0] [4 4 4 4 0]"},
      {"with -1", input.padded_batch(2, {.values = {-1}}), "[1 -1] [2 2] | [3 3 3 -1] [4 4 4 4]"},
      {"to 5 with -1", input.padded_batch(2, {.shapes = {Shape{5}}, .values = {-1}}),
       "[1 -1 -1 -1 -1] [2 2 -1 -1 -1] | [3 3 3 -1 -1] [4 4 4 4 -1]"},
      {"remainder", input.padded_batch(3), "[1 0 0] [2 2 0] [3 3 3] | [4 4 4 4]"},
      {"remainder dropped", input.padded_batch(3, {.drop_remainder = true}),
       "[1 0 0] [2 2 0] [3 3 3]"},
      {"all empty", runs_of({0, 0, 0}).padded_batch(2), "[-] [-] | [-]"},
      {"some empty", runs_of({0, 2}).padded_batch(2), "[0 0] [2 2]"},
      {"of nothing", runs_of({}).padded_batch(2), ""},
      {"exactly the padded shape", runs_of({2, 1}).padded_batch(2, {.shapes = {Shape{2}}}),
       "[2 2] [1 0]"},
      {"scalars", numbers(3).padded_batch(2), "0 1 | 2"},
  });
  EXPECT_EQ(run(runs_of({0, 0}).padded_batch(2).map(
                [](Element element) {
                  const Tensor& x = element[0];
                  return Element({{"x", Tensor::of<std::int64_t>({1, 2}, {x.dim(0), x.dim(1)})}});
                },
                {.output = rows_spec(Shape{-1, 2})})),
            "[2 0]");
}

TEST(PaddedBatch, TwoComponents) {
  const auto pairs = [](Element element) {
    return x_of(element) == 0 ? Element({{"a", vector_of({1, 2, 3})}, {"b", vector_of({10})}})
                              : Element({{"a", vector_of({4, 5})}, {"b", vector_of({11, 12})}});
  };
  const Dataset input = numbers(2).map(
      pairs, {.output = Spec({{"a", DType::i64, Shape{-1}}, {"b", DType::i64, Shape{-1}}})});
  expect_vectors({{"values -1 and 100",
                   input.padded_batch(2, {.shapes = {Shape{4}, Shape{-1}}, .values = {-1, 100}}),
                   "([1 2 3 -1] [4 5 -1 -1], [10 100] [11 12])"}});
}

TEST(PaddedBatch, PadsEveryDimension) {
  const Dataset input = numbers(2).map(
      [](Element element) {
        return x_of(element) == 0 ? Element({{"x", Tensor::of<std::int64_t>({1, 3}, {1, 2, 3})}})
                                  : Element({{"x", Tensor::of<std::int64_t>({2, 1}, {4, 5})}});
      },
      {.output = rows_spec(Shape{-1, -1})});
  expect_vectors({{"to the longest", input.padded_batch(2), "[[1 2 3] [0 0 0]] [[4 0 0] [5 0 0]]"},
                  {"to 2 and 4", input.padded_batch(2, {.shapes = {Shape{2, 4}}}),
                   "[[1 2 3 0] [0 0 0 0]] [[4 0 0 0] [5 0 0 0]]"}});
}

TEST(PaddedBatch, OversizedElement) {
  const Dataset dataset = runs_of({1, 4, 2, 2}).padded_batch(2, {.shapes = {Shape{3}}});
  expect_vectors({{"padded", dataset, "E | [2 2 0] [2 2 0]"}});
  const std::vector<Error> errors = test::errors(dataset);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].code(), ErrorCode::data_loss);
  EXPECT_NE(std::string(errors[0].what()).find("[4]"), std::string::npos) << errors[0].what();
  EXPECT_EQ(errors[0].where().index, 1);
}

TEST(PaddedBatch, RefusesWhatIsKnownToBeWrong) {
  const auto refuses = [](const std::string& text, const std::function<void()>& act) {
    expect_error(ErrorCode::invalid_argument, text, act);
  };
  const Dataset four = numbers(1).map(
      [](Element) {
        return Element({{"x", vector_of({1, 2, 3, 4})}});
      },
      {.output = rows_spec({4})});
  const Dataset unknown = numbers(1).map([](Element element) { return element; },
                                         {.output = rows_spec(Shape::unknown_rank())});
  refuses("[4]", [&] { (void)four.padded_batch(2, {.shapes = {Shape{3}}}); });
  refuses("unknown rank", [&] { (void)unknown.padded_batch(2); });
  refuses("padded", [&] { (void)four.padded_batch(2, {.shapes = {Shape{4, 4}}}); });
  refuses("each of the 1", [&] { (void)four.padded_batch(2, {.shapes = {Shape{4}, Shape{4}}}); });
  refuses("each of the 1", [&] { (void)four.padded_batch(2, {.values = {1, 2}}); });
  const Dataset bytes = numbers(1).map(
      [](Element) {
        return Element({{"x", Tensor::of<std::uint8_t>({1}, {1})}});
      },
      {.output = rows_spec({1}, DType::u8)});
  refuses("256", [&] { (void)bytes.padded_batch(2, {.values = {256}}); });
  refuses("-1", [&] { (void)bytes.padded_batch(2, {.values = {-1}}); });
  refuses("0.5", [&] { (void)four.padded_batch(2, {.values = {0.5}}); });
}

TEST(Unbatch, GivesTheRows) {
  expect_over_inputs(
      "of batches", iota(5), [](Dataset d) { return d.batch(2).unbatch(); }, "0 1 2 3 4");
  expect_over_inputs(
      "of batches of batches", iota(5),
      [](Dataset d) { return d.batch(2).batch(2).unbatch().unbatch(); }, "0 1 2 3 4");
  expect_over_inputs(
      "batched again", iota(7), [](Dataset d) { return d.batch(3).unbatch().batch(2); },
      "0 1 | 2 3 | 4 5 | 6");
  expect_vectors({
      {"of uneven rows", ragged({{1, 2, 3}, {1, 2}, {1, 2, 3, 4}}).unbatch(), "1 2 3 1 2 1 2 3 4"},
      {"of no rows", ragged({{}, {1}, {}, {}, {2, 3}, {}}).unbatch(), "1 2 3"},
      {"of padded batches", runs_of({1, 2, 3}).padded_batch(2).unbatch(), "1 0 2 2 3 3 3"},
  });
}

TEST(Unbatch, LifetimeOfRows) {
  std::vector<Element> kept;
  {
    Iterator iterator = numbers(100).batch(10).unbatch().iterate({.slots = 2});
    for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
      kept.push_back(*next);
    }
  }
  ASSERT_EQ(kept.size(), 100U);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(x_of(kept[i]), static_cast<std::int64_t>(i));
  }
}

TEST(Unbatch, DifferentRows) {
  const Spec fixed({{"a", DType::i64, Shape{2}}, {"b", DType::i64, Shape{3}}});
  const Spec open({{"a", DType::i64, Shape{-1}}, {"b", DType::i64, Shape{-1}}});
  const auto pair = [](Element element) {
    const bool bad = x_of(element) == 1;
    return Element({{"a", vector_of({1, 2})}, {"b", bad ? vector_of({3}) : vector_of({3, 4})}});
  };
  expect_error(ErrorCode::invalid_argument, "rows",
               [&] { (void)numbers(3).map(pair, {.output = fixed}).unbatch(); });
  expect_error(ErrorCode::invalid_argument, "scalar", [&] { (void)numbers(3).unbatch(); });
  const Dataset dynamic = numbers(3).map(pair, {.output = open}).unbatch();
  expect_vectors({{"at run time", dynamic, "(1, 3) (2, 4) E (1, 3) (2, 4)"}});
  const std::vector<Error> errors = test::errors(dynamic);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].code(), ErrorCode::mismatch);
}

TEST(Unbatch, ScalarAtRunTime) {
  const Dataset dataset = numbers(2)
                              .map([](Element element) { return element; },
                                   {.output = rows_spec(Shape::unknown_rank())})
                              .unbatch();
  expect_vectors({{"scalar", dataset, "E E"}});
}

TEST(Generate, ElementsOutsideTheirSpec) {
  const Dataset dataset{make_generate_source(
      []() -> Generator {
        return [next = 0](Element& out) mutable {
          if (next == 3) return false;
          out = next == 1 ? Element({{"x", vector_of({1, 2})}}) : test::x_element(next);
          ++next;
          return true;
        };
      },
      test::x_spec(), "wrong")};
  expect_vectors({{"generate", dataset, "0 E 2"}});
}

}  // namespace
}  // namespace penstock
