// Feature columns by themselves: what they make of values, what they refuse.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/iterator.h>
#include <penstock/sources.h>

#include <penstock/towers/columns/input_layer.h>
#include <penstock/towers/columns/transform.h>
#include "tests/support/errors.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using testing::ElementsAre;

using Texts = std::vector<std::string_view>;
using Numbers = std::vector<std::int64_t>;

/// One example, whose features are of any number of values.
Dataset example(std::map<std::string, Tensor> features) {
  std::vector<ComponentSpec> spec;
  for (const auto& [key, value] : features) spec.push_back({key, value.dtype(), {-1}});
  return generate(
      [features] {
        return [features, done = false](Element& out) mutable {
          if (std::exchange(done, true)) return false;
          out.clear();
          for (const auto& [key, value] : features) out.set(key, value);
          return true;
        };
      },
      Spec(std::move(spec)));
}

Tensor texts(const Texts& values) {
  return Tensor::of_bytes(values);
}
Tensor numbers(const Numbers& values) {
  return Tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}
Tensor floats(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<std::int64_t>(values.size())}, values);
}

Element last(const Dataset& dataset) {
  Element only;
  for (Element& element : dataset.iterate({.threads = 1})) only = std::move(element);
  return only;
}

Numbers ids(const Dataset& features, const ColumnPtr& column) {
  return last(transform_columns(features, {column}))[column->name].to_vector<std::int64_t>();
}

/// The same example, whose features have a fixed shape.
Dataset fixed(const std::map<std::string, Tensor>& features) {
  Element columns;
  for (const auto& [key, value] : features)
    columns.set(key, value.reshape(Shape{1, value.volume()}));
  return tensors(columns);
}

TEST(Fingerprint, IsFarmHashs) {
  EXPECT_EQ(fingerprint64(""), 0x9ae16a3b2f90404fU);
  EXPECT_EQ(fingerprint64("bob"), 0x0dd77c65008e3c71U);
}

TEST(Columns, HashBuckets) {
  EXPECT_THAT(ids(example({{"x", texts({"bob", "george"})}}), hash_bucket_column("x", 1000)),
              ElementsAre(913, 270));
  EXPECT_THAT(
      ids(example({{"x", numbers({42, 7})}}), hash_bucket_column("x", 1000, {.dtype = DType::i64})),
      ElementsAre(736, 88));
}

TEST(Columns, Crosses) {
  const CrossKey word("word");
  const CrossKey number("number", DType::i64);
  for (const auto& [text, value, word_first, number_first, with_key] :
       std::vector<std::tuple<const char*, std::int64_t, int, int, int>>{
           {"bob", 42, 673, 425, 843}, {"george", 7, 220, 762, 163}}) {
    const std::map<std::string, Tensor> features{{"word", texts({text})},
                                                 {"number", numbers({value})}};
    for (const Dataset& data : {example(features), fixed(features)}) {
      EXPECT_THAT(ids(data, crossed_column({word, number}, 1000)), ElementsAre(word_first));
      EXPECT_THAT(ids(data, crossed_column({number, word}, 1000)), ElementsAre(number_first));
      EXPECT_THAT(ids(data, crossed_column({word, number}, 1000, 5)), ElementsAre(with_key));
    }
  }
}

TEST(Columns, CrossesOfManyValues) {
  const Dataset data = example({{"a", texts({"1", "2"})}, {"b", texts({"x", "y"})}});
  const auto one = [](const char* a, const char* b) {
    return ids(example({{"a", texts({a})}, {"b", texts({b})}}),
               crossed_column({"a", "b"}, 1 << 30))[0];
  };
  EXPECT_THAT(ids(data, crossed_column({"a", "b"}, 1 << 30)),
              ElementsAre(one("1", "x"), one("1", "y"), one("2", "x"), one("2", "y")));
  EXPECT_TRUE(ids(example({{"a", texts({"1"})}, {"b", texts({})}}), crossed_column({"a", "b"}, 10))
                  .empty());
  const Texts many(300, "x");
  expect_error(ErrorCode::out_of_range, "column a_X_b: more than 65536 crosses", [&] {
    ids(example({{"a", texts(many)}, {"b", texts(many)}}), crossed_column({"a", "b"}, 10));
  });
}

TEST(Columns, MissingValuesOfAFixedShape) {
  const std::map<std::string, Tensor> features{{"word", texts({"b", "", "?"})},
                                               {"number", numbers({1, -1, 0})}};
  const ColumnPtr word = vocabulary_column("word", {"a", "b", ""});
  const ColumnPtr number = identity_column("number", 2);
  EXPECT_THAT(ids(example(features), word), ElementsAre(1, 2, -1));
  EXPECT_THAT(ids(fixed(features), word), ElementsAre(1, -1, -1));
  EXPECT_THAT(ids(fixed(features), number), ElementsAre(1, -1, 0));
  const ColumnPtr cross = crossed_column({word, number}, 1 << 30);
  const Numbers crossed = ids(fixed(features), cross);
  ASSERT_EQ(crossed.size(), 9U);
  EXPECT_EQ(std::ranges::count_if(crossed, [](std::int64_t id) { return id >= 0; }), 4)
      << "one word is in no vocabulary, which counts";
}

TEST(Columns, OutOfVocabularyValues) {
  const Dataset words = example({{"x", texts({"b", "?", "a"})}});
  const Dataset counts = example({{"x", numbers({30, 31, 10})}});
  EXPECT_THAT(ids(words, vocabulary_column("x", {"a", "b"})), ElementsAre(1, -1, 0));
  EXPECT_THAT(ids(words, vocabulary_column("x", {"a", "b"}, {.default_value = 0})),
              ElementsAre(1, 0, 0));
  EXPECT_THAT(ids(words, vocabulary_column("x", {"a", "b"}, {.oov_buckets = 1})),
              ElementsAre(1, 2, 0));
  EXPECT_THAT(ids(counts, vocabulary_column("x", {"10", "20", "30"}, {.dtype = DType::i64})),
              ElementsAre(2, -1, 0));
  const FileSystemPtr files = make_memory_file_system({{"words.txt", "a\r\nb\n\nc"}});
  EXPECT_THAT(read_vocabulary("words.txt", 0, files), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(read_vocabulary("words.txt", 2, files), ElementsAre("a", "b"));
  expect_error(ErrorCode::invalid_argument, "a vocabulary of 5 has 4 lines (words.txt",
               [&] { read_vocabulary("words.txt", 5, files); });
}

TEST(Columns, NormalisedNumbers) {
  const Dataset data = fixed({{"x", floats({0, 3})}});
  const auto value = [&](Normalizer normalizer) {
    return last(transform_columns(
        data, {numeric_column("x", {.shape = {2}, .normalizer = std::move(normalizer)})}))["x"]
        .to_vector<float>();
  };
  EXPECT_THAT(value({}), ElementsAre(0, 3));
  EXPECT_THAT(value({.subtract = 1, .divide = 2}), ElementsAre(-0.5F, 1));
  EXPECT_THAT(value({.log1p = true}), ElementsAre(0, std::log1p(3.0F)));
  const auto twice = [](std::span<float> values) {
    for (float& one : values) one *= 2;
  };
  EXPECT_THAT(value({.subtract = 1, .function = twice, .name = "twice"}), ElementsAre(-2, 4));
}

TEST(Columns, InvalidColumns) {
  const ColumnPtr word = hash_bucket_column("word", 10);
  const ColumnPtr age = numeric_column("age");
  const ColumnPtr day = identity_column("day", 7);
  const std::vector<std::pair<const char*, std::function<void()>>> cases{
      {"column age: feature age must be of f32, f64 or i64, not bytes",
       [] { numeric_column("age", {.dtype = DType::bytes}); }},
      {"column age: its shape must be known", [] { numeric_column("age", {.shape = {-1}}); }},
      {"column age: has 3 defaults for the shape [2]",
       [] {
         numeric_column("age", {.shape = {2}, .default_value = {1, 2, 3}});
       }},
      {"column age: the default of a feature of i64 must be a whole number",
       [] { numeric_column("age", {.dtype = DType::i64, .default_value = {0.5}}); }},
      {"column age_bucketized: boundaries must increase",
       [&] {
         bucketized_column(age, {1, 1});
       }},
      {"column word: buckets need a numeric column", [&] { bucketized_column(word, {1}); }},
      {"column word: feature word must be of bytes or i64, not f32",
       [] { hash_bucket_column("word", 10, {.dtype = DType::f32}); }},
      {"column word: needs at least one bucket", [] { hash_bucket_column("word", 0); }},
      {"column day: its default is not one of its buckets",
       [] { identity_column("day", 7, {.default_value = 7}); }},
      {"column job: \"a\" is in its vocabulary twice",
       [] {
         vocabulary_column("job", {"a", "a"});
       }},
      {"column job: \"a\" in its vocabulary is not an i64",
       [] { vocabulary_column("job", {"a"}, {.dtype = DType::i64}); }},
      {"column job: can have a default or out-of-vocabulary buckets, not both",
       [] { vocabulary_column("job", {"a"}, {.default_value = 0, .oov_buckets = 1}); }},
      {"column age_X_word: age has no ids",
       [&] {
         crossed_column({age, "word"}, 10);
       }},
      {"column day_X_word: word is already hashed",
       [&] {
         crossed_column({day, word}, 10);
       }},
      {"column word: a cross needs at least two keys", [&] { crossed_column({"word"}, 10); }},
      {"column word_weighted_by_w: weights w must be of f32 or i64, not bytes",
       [&] { weighted_column(word, "w", DType::bytes); }},
      {"column age: an indicator needs a categorical column", [&] { indicator_column(age); }},
      {"column word_embedding: needs a dimension", [&] { embedding_column(word, {}); }},
      {"column word: has 10 ids, and day 7: they can't share a table",
       [&] {
         shared_embedding_columns({day, word}, {.dimension = 2});
       }},
      {"column age: reads feature age as i64 [?], but column age as f32 [1]",
       [&] {
         parse_spec({age, identity_column("age", 3)});
       }},
      {"column age: has another default for feature age", [&] {
         parse_spec({age, numeric_column("age", {.default_value = {1}})});
       }}};
  for (const auto& [text, make] : cases) expect_error(ErrorCode::invalid_argument, text, make);
}

TEST(Columns, MismatchedData) {
  const Dataset data = example({{"word", texts({})}, {"number", numbers({})}});
  const std::vector<std::pair<const char*, std::vector<ColumnPtr>>> cases{
      {"column age: no feature age in {number: i64 [?], word: bytes [?]}", {numeric_column("age")}},
      {"column number: feature number must be of bytes, the data have i64 [?]",
       {hash_bucket_column("number", 10)}},
      {"column number: feature number must be [1], the data have i64 [?]",
       {numeric_column("number", {.dtype = DType::i64})}},
      {"column number_X_word: feature number must be of bytes, the data have i64 [?]",
       {crossed_column({"word", "number"}, 10)}},
      {"column word_weighted_by_w: no feature w",
       {weighted_column(hash_bucket_column("word", 10), "w")}},
      {"two columns are named word",
       {hash_bucket_column("word", 10), hash_bucket_column("word", 11)}}};
  for (const auto& one : cases)
    expect_error(ErrorCode::invalid_argument, one.first,
                 [&] { transform_columns(data, one.second); });
  expect_error(ErrorCode::invalid_argument, "label: feature word must be one bytes", [&] {
    transform_columns(data, {hash_bucket_column("word", 10)}, Label{"word", DType::bytes, {"a"}});
  });
}

TEST(Columns, MismatchedExamples) {
  expect_error(ErrorCode::mismatch, "column day: 7 in feature day is not one of its 7 ids", [] {
    ids(example({{"day", numbers({3, 7})}}), identity_column("day", 7));
  });
  const ColumnPtr weighted = weighted_column(hash_bucket_column("word", 10), "w");
  expect_error(ErrorCode::mismatch, "feature w has 1 weights of 2 values", [&] {
    ids(example({{"word", texts({"a", "b"})}, {"w", floats({1})}}), weighted);
  });
}

TEST(Columns, ParseSpec) {
  const ColumnPtr age = numeric_column("age", {.default_value = {1}});
  const std::vector<FeatureSpec> spec =
      parse_spec({embedding_column(crossed_column({bucketized_column(age, {3}), "job", "word"}, 9),
                                   {.dimension = 2}),
                  hash_bucket_column("job", 4, {.values = 2}), age});
  ASSERT_EQ(spec.size(), 3U);
  EXPECT_EQ(spec[0].key + spec[1].key + spec[2].key, "agejobword");
  EXPECT_EQ(spec[0].shape, Shape{1});
  EXPECT_EQ(spec[0].default_value->item<float>(), 1);
  EXPECT_EQ(spec[1].shape, Shape{2}) << "a cross takes a feature as others do";
  EXPECT_EQ(spec[2].shape, Shape{-1});
  EXPECT_EQ(spec[2].dtype, DType::bytes);
}

TEST(InputLayer, RefusesWhatItCantHave) {
  VariableStore store(1, 0);
  Tables tables(store.tower(0));
  const ColumnPtr day = identity_column("day", 7);
  const ColumnPtr steps = identity_column("steps", 7, {.sequence = true});
  const auto refused = [&](const char* text, const std::function<void()>& make) {
    expect_error(ErrorCode::invalid_argument, text, make);
  };
  refused("column day: has ids", [&] { InputLayer(tables, {day}); });
  refused("column steps_indicator: is a sequence",
          [&] { InputLayer(tables, {indicator_column(steps)}); });
  refused("column day_indicator: is used twice", [&] {
    InputLayer(tables, {indicator_column(day), indicator_column(day)});
  });
  refused("column day_indicator: is already dense",
          [&] { LinearModel(tables, {indicator_column(day)}, 1); });
  refused("column day_indicator: is not a sequence",
          [&] { SequenceLayer(tables, {indicator_column(day)}); });
}

}  // namespace
}  // namespace penstock::towers
