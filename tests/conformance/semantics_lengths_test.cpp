// Batches by length, cut anew, and of rows of any length.
#include <gtest/gtest.h>

#include "tests/conformance/rows.h"
#include "tests/support/errors.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace semantics_lengths_test {

using test::expect_error;
using test::expect_over_inputs;
using test::expect_vectors;
using test::failing_at;
using test::iota;
using test::numbers;
using test::ragged;
using test::runs_of;
using test::vector_of;
using test::x_of;

TEST(BucketByLength, GathersWhatIsAlike) {
  const Dataset lists =
      ragged({{0}, {1, 2, 3, 4}, {5, 6, 7}, {7, 8, 9, 10, 11}, {13, 14, 15, 16, 19, 20}, {21, 22}});
  expect_vectors({
      {"tf.data's", lists.bucket_by_length({.bounds = {3, 5}, .sizes = {2, 2, 2}}),
       "[1 2 3 4] [5 6 7 0] | [7 8 9 10 11 0] [13 14 15 16 19 20] | [0 0] [21 22]"},
      {"one leftover each",
       runs_of({5, 1, 4}).bucket_by_length({.bounds = {3, 5}, .sizes = {2, 2, 2}}),
       "[1] | [4 4 4 4] | [5 5 5 5 5]"},
      {"padded with -1",
       runs_of({1, 2}).bucket_by_length({.bounds = {3}, .sizes = {2, 2}, .values = {-1}}),
       "[1 -1] [2 2]"},
      {"of nothing", runs_of({}).bucket_by_length({.bounds = {3}, .sizes = {2, 2}}), ""},
      {"one bucket", runs_of({1, 2, 1}).bucket_by_length({.sizes = {2}}), "[1 0] [2 2] | [1]"},
      {"no padding",
       runs_of({1, 2, 1, 3})
           .bucket_by_length({.bounds = {2, 3}, .sizes = {2, 1, 1}, .no_padding = true}),
       "[2 2] | [1] [1] | [3 3 3]"},
      {"no padding, and shapes differ",
       runs_of({1, 2, 3}).bucket_by_length({.bounds = {3}, .sizes = {2, 2}, .no_padding = true}),
       "E | [3 3 3]"},
  });
}

TEST(BucketByLength, PadsToTheBoundary) {
  const Dataset dataset =
      runs_of(iota(10, 1))
          .bucket_by_length({.bounds = {3, 7, 11}, .sizes = {2, 2, 2, 2}, .pad_to_boundary = true});
  Iterator iterator = dataset.iterate();
  std::vector<std::int64_t> widths;
  for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
    widths.push_back((*next)[0].dim(1));
  }
  EXPECT_EQ(widths, (std::vector<std::int64_t>{2, 6, 6, 10, 10}));
  const Dataset over = runs_of({1, 4, 2}).bucket_by_length(
      {.bounds = {4}, .sizes = {2, 2}, .pad_to_boundary = true});
  expect_vectors({{"", over, "E | [1 0 0] [2 2 0]"}});
  const std::vector<Error> errors = test::errors(over);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].code(), ErrorCode::out_of_range);
  EXPECT_NE(std::string(errors[0].what()).find("pad_to_boundary"), std::string::npos);
  EXPECT_EQ(errors[0].where().index, 1);
}

TEST(BucketByLength, DropsLeftovers) {
  std::vector<std::int64_t> lengths;
  const std::vector<std::pair<int, int>> of_length{{28, 1}, {7, 3}, {6, 5}, {5, 7}};
  for (const auto& [count, length] : of_length) {
    for (int i = 0; i < count; ++i) lengths.push_back(length);
  }
  const Dataset dataset = runs_of(lengths).bucket_by_length(
      {.bounds = {2, 4, 6}, .sizes = {10, 8, 4, 2}, .drop_remainder = true});
  Iterator iterator = dataset.iterate();
  int batches = 0;
  while (iterator.next().has_value()) ++batches;
  EXPECT_EQ(batches, 2 + 0 + 1 + 2);
}

TEST(BucketByLength, FillsATokenBudget) {
  expect_vectors({
      {"one bucket", runs_of({2, 3, 3, 1, 6, 5, 1, 1}).bucket_by_length({.tokens = 9}),
       "[2 2 0] [3 3 3] [3 3 3] | [1] | [6 6 6 6 6 6] | [5 5 5 5 5] | [1] [1]"},
      {"two buckets", runs_of({2, 6, 2, 2, 3, 2}).bucket_by_length({.bounds = {4}, .tokens = 6}),
       "[6 6 6 6 6 6] | [2 2] [2 2] [2 2] | [3 3 3] [2 2 0]"},
      {"to the boundary",
       runs_of({1, 1, 1, 1, 1})
           .bucket_by_length({.bounds = {4}, .tokens = 6, .pad_to_boundary = true}),
       "[1 0 0] [1 0 0] | [1 0 0] [1 0 0] | [1 0 0]"},
      {"an element alone takes more", runs_of({7, 1}).bucket_by_length({.tokens = 6}), "E | [1]"},
      {"nothing has a width", runs_of({0, 0, 0}).bucket_by_length({.tokens = 2}), "[-] [-] | [-]"},
  });
}

TEST(BucketByLength, GivesAsManyOfABucketTogetherAsThereAreTowers) {
  const auto pairs = [](std::vector<std::int64_t> lengths, int towers, bool drops = false) {
    return runs_of(std::move(lengths))
        .bucket_by_length(
            {.bounds = {3}, .sizes = {2, 2}, .drop_remainder = drops, .towers = towers});
  };
  expect_vectors({
      {"two buckets", pairs({1, 4, 1, 2, 4, 2, 4, 4}, 2),
       "[1] [1] | [2 2] [2 2] | [4 4 4 4] [4 4 4 4] | [4 4 4 4] [4 4 4 4]"},
      {"the rest, divided", pairs({1, 1, 1, 4, 4}, 2), "[1] [1] | [1] | [4 4 4 4] | [4 4 4 4]"},
      {"too few for each", pairs({1, 4, 1, 1, 4}, 3), "[1] | [1] | [1]"},
      {"the rest, dropped", pairs({1, 1, 1, 1, 1, 4, 4, 4}, 2, true), "[1] [1] | [1] [1]"},
  });
}

TEST(BucketByLength, RefusesWrongOptions) {
  const std::vector<BucketOptions> wrong{
      {.bounds = {3}, .sizes = {1}},
      {.bounds = {3, 3}, .sizes = {1, 1, 1}},
      {.bounds = {0}, .sizes = {1, 1}},
      {.sizes = {0}},
      {.sizes = {1}, .tokens = 5},
      {.tokens = -1},
      {},
      {.sizes = {1}, .pad_to_boundary = true},
      {.sizes = {1}, .no_padding = true, .values = {1}},
      {.sizes = {1}, .shapes = {{3}, {3}}},
      {.sizes = {1}, .towers = 0},
      {.tokens = 5, .towers = 2},
  };
  for (const BucketOptions& options : wrong) {
    expect_error(ErrorCode::invalid_argument, "",
                 [&] { (void)runs_of({1}).bucket_by_length(options); });
  }
  const auto failing = numbers(2).bucket_by_length({.sizes = {2}});
  expect_vectors({{"a scalar has no length", failing, "E E"}});
}

TEST(Padding, IsCounted) {
  const Dataset lists = runs_of({1, 2, 3, 4});
  const Dataset texts = lists.map(
      [](Element element) {
        const std::vector<std::string_view> some(static_cast<std::size_t>(element[0].dim(0)), "ab");
        return Element({{"x", Tensor::of_bytes(some)}});
      },
      {.output = Spec({{"x", DType::bytes, {Shape::kUnknown}}})});
  struct Case {
    std::string what;
    Dataset dataset;
    std::uint64_t padding;  // bytes
    std::uint64_t all;
  };
  const std::vector<Case> cases{
      {"to the longest", lists.padded_batch(2), 8 * 2, 8 * 12},
      {"to a width", lists.padded_batch(2, {.shapes = {{5}}}), 8 * 10, 8 * 20},
      {"of one", lists.padded_batch(1), 0, 8 * 10},
      {"texts", texts.padded_batch(2), 0, 2 * 10},
      {"by length", lists.bucket_by_length({.bounds = {3}, .sizes = {2, 2}}), 8 * 2, 8 * 12},
      {"to the boundary",
       lists.bucket_by_length({.bounds = {3, 6}, .sizes = {2, 2, 2}, .pad_to_boundary = true}),
       8 * 4, 8 * 14},
      {"by length, without", runs_of({1, 1}).bucket_by_length({.sizes = {2}, .no_padding = true}),
       0, 8 * 2},
      // Three rows of five. Each of their numbers adds a segment and a position of four bytes.
      {"packed", lists.pack({.length = 5}), 8 * 5, 8 * 30},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    Iterator iterator = one.dataset.iterate();
    for (const Element& element : iterator) (void)element;
    const StageStats stage = iterator.stats().stages.back();
    EXPECT_EQ(stage.padding_bytes, one.padding);
    EXPECT_EQ(stage.bytes, one.all);
  }
}

TEST(Rebatch, CutsAnew) {
  const auto rebatch = [](std::int64_t size, std::vector<std::int64_t> sizes) {
    return [=](Dataset d) { return d.batch(size).rebatch(sizes); };
  };
  expect_over_inputs("to larger", iota(6), rebatch(2, {3}), "0 1 2 | 3 4 5");
  expect_over_inputs("to smaller", iota(6), rebatch(4, {3}), "0 1 2 | 3 4 5");
  expect_over_inputs("in turn", iota(8), rebatch(2, {2, 1, 1}), "0 1 | 2 | 3 | 4 5 | 6 | 7");
  expect_over_inputs("with empty ones", iota(7), rebatch(7, {2, 0, 3}),
                     "0 1 | - | 2 3 4 | 5 6 | -");
  expect_over_inputs("none behind a short one", iota(6), rebatch(6, {4, 0}), "0 1 2 3 | - | 4 5");
  expect_over_inputs("nor several", iota(6), rebatch(2, {4, 0, 0, 3}), "0 1 2 3 | - | - | 4 5");
  expect_over_inputs("one behind a full one", iota(4), rebatch(2, {4, 0}), "0 1 2 3 | -");
  expect_over_inputs("with a remainder", iota(7), rebatch(2, {4}), "0 1 2 3 | 4 5 6");
  expect_over_inputs("larger than all", iota(3), rebatch(2, {10}), "0 1 2");
  expect_over_inputs("of nothing", {}, rebatch(2, {3}), "");
  expect_over_inputs(
      "dropping", iota(7),
      [](Dataset d) { return d.batch(2).rebatch(4, {.drop_remainder = true}); }, "0 1 2 3");
  expect_over_inputs(
      "twice", iota(7), [](Dataset d) { return d.batch(3).rebatch(2).rebatch(4); },
      "0 1 2 3 | 4 5 6");
}

TEST(Rebatch, IsRestoredBehindAShortBatch) {
  const Dataset dataset = numbers(6).batch(6).rebatch({4, 0});
  Iterator iterator = dataset.iterate();
  for (int i = 0; i < 3; ++i) (void)iterator.next().value();
  EXPECT_TRUE(dataset.restore(iterator.save()).next().is_end());
}

TEST(Rebatch, KnowsItsSpec) {
  EXPECT_EQ(numbers(6).batch(2).rebatch(3).spec()[0].shape, Shape{Shape::kUnknown});
  const BatchOptions drop{.drop_remainder = true};
  EXPECT_EQ(numbers(6).batch(2).rebatch(3, drop).spec()[0].shape, Shape{3});
  EXPECT_EQ(numbers(6).batch(2).rebatch({3, 2}, drop).spec()[0].shape, Shape{Shape::kUnknown});
}

TEST(Rebatch, RefusesWhatIsNoBatchAndSizesOfNothing) {
  expect_error(ErrorCode::invalid_argument, "scalar", [] { (void)numbers(3).rebatch(2); });
  for (const std::vector<std::int64_t>& sizes :
       std::vector<std::vector<std::int64_t>>{{}, {0}, {0, 0}, {2, -1}}) {
    expect_error(ErrorCode::invalid_argument, "",
                 [&] { (void)numbers(3).batch(2).rebatch(sizes); });
  }
}

TEST(Rebatch, FailedBatch) {
  const Dataset bad = numbers(8).batch(2).map([](Element element) {
    if (element["x"].values<std::int64_t>()[0] == 2) throw std::runtime_error("bad batch");
    return element;
  });
  expect_vectors({
      {"fail", bad.rebatch(3), "0 1 | E | 4 5 6 | 7"},
      {"skip", bad.rebatch(3), "0 1 4 | 5 6 7", {.on_error = OnError::skip}},
      {"dropping", bad.rebatch(3, {.drop_remainder = true}), "E | 4 5 6"},
      {"first", failing_at(numbers(4), 0).batch(2).rebatch(1), "E | 1 | 2 | 3"},
  });
}

TEST(Rebatch, JoinsByteStringsAndRowsOfAnyShape) {
  const Dataset texts = numbers(5).map(
      [](Element element) {
        return Element(
            {{"text", Tensor::copy_bytes(std::string(60, 'a') + std::to_string(x_of(element)))},
             {"pair", vector_of({x_of(element), 7})}});
      },
      {.output = Spec({{"text", DType::bytes, Shape()}, {"pair", DType::i64, {2}}})});
  Iterator iterator = texts.batch(2).rebatch(3).iterate();
  const Element first = *iterator.next();
  EXPECT_EQ(first["text"].bytes_at(2), std::string(60, 'a') + "2");
  EXPECT_EQ(first["pair"].to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 7, 1, 7, 2, 7}));
  EXPECT_EQ(first.valid_rows, 3);
  EXPECT_EQ(iterator.next()->valid_rows, 2);
  const Dataset widths = runs_of({1, 1, 3, 2}).padded_batch(2).rebatch(3);
  expect_vectors({{"widths that differ", widths, "E | [2 2 0]"}});
}

TEST(RaggedBatch, KeepsValuesAndRowSplits) {
  const Dataset dataset = ragged({{}, {0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}});
  expect_vectors({
      {"by 2", dataset.ragged_batch(2),
       "(0, 0 0 1) | (0 1 0 1 2, 0 2 5) | (0 1 2 3 0 1 2 3 4, 0 4 9)"},
      {"by 4", dataset.ragged_batch(4), "(0 0 1 0 1 2, 0 0 1 3 6) | (0 1 2 3 0 1 2 3 4, 0 4 9)"},
      {"dropping", dataset.ragged_batch(4, {.drop_remainder = true}), "(0 0 1 0 1 2, 0 0 1 3 6)"},
      {"of nothing", ragged({}).ragged_batch(2), ""},
      {"of empty rows", ragged({{}, {}}).ragged_batch(2), "(-, 0 0 0)"},
  });
  EXPECT_EQ(dataset.ragged_batch(2).spec().to_string(), "{x: i64 [?], x.row_splits: i64 [?]}");
  EXPECT_EQ(dataset.ragged_batch(2, {.drop_remainder = true}).spec().to_string(),
            "{x: i64 [?], x.row_splits: i64 [3]}");
  EXPECT_EQ(dataset.ragged_batch(4).cardinality(), 2);
}

TEST(RaggedBatch, LivesInOneSlot) {
  Iterator iterator = runs_of({9, 9, 9}).ragged_batch(3).iterate();
  const Element batch = *iterator.next();
  EXPECT_EQ(batch.valid_rows, 3);
  EXPECT_EQ(batch["x"].owner(), batch["x.row_splits"].owner());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch["x"].data()) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch["x.row_splits"].data()) % 64, 0U);
}

TEST(RaggedBatch, StacksWhatHasAShapeAndTakesByteStrings) {
  const Dataset dataset = numbers(3).map(
      [](Element element) {
        std::vector<std::string_view> words(static_cast<std::size_t>(x_of(element)), "word");
        return Element({{"words", Tensor::of_bytes(words)}, {"id", element["x"]}});
      },
      {.output = Spec({{"words", DType::bytes, {Shape::kUnknown}}, {"id", DType::i64, Shape()}})});
  expect_vectors({{"", dataset.ragged_batch(3), "(word word word, 0 0 1 3, 0 1 2)"}});
}

TEST(RaggedBatch, RefusesWhatItCanNotHold) {
  expect_error(ErrorCode::invalid_argument, "positive", [] { (void)runs_of({1}).ragged_batch(0); });
  for (const Shape& shape : {Shape::unknown_rank(), Shape{3, Shape::kUnknown}}) {
    const Dataset dataset =
        numbers(3).map([](Element e) { return e; }, {.output = Spec({{"x", DType::i64, shape}})});
    expect_error(ErrorCode::invalid_argument, "x", [&] { (void)dataset.ragged_batch(2); });
  }
}

TEST(RaggedBatch, FailedElement) {
  const Dataset dataset = failing_at(numbers(5), 1)
                              .map(
                                  [](Element e) {
                                    return Element({{"x", vector_of({x_of(e)})}});
                                  },
                                  {.output = Spec({{"x", DType::i64, {Shape::kUnknown}}})})
                              .ragged_batch(2);
  expect_vectors({{"fail", dataset, "E | (2 3, 0 1 2) | (4, 0 1)"},
                  {"skip", dataset, "(0 2, 0 1 2) | (3 4, 0 1 2)", {.on_error = OnError::skip}}});
}

}  // namespace semantics_lengths_test
}  // namespace penstock
