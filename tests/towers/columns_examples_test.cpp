// Columns of tf.Examples that they parse themselves, and batches that they pack.
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/iterator.h>
#include <penstock/map.h>
#include <penstock/rng.h>
#include <penstock/sources.h>

#include <penstock/towers/columns/transform.h>
#include "tests/support/errors.h"
#include "tests/support/example.h"

namespace penstock::towers {
namespace {

using penstock::test::bytes_feature;
using penstock::test::example_of;
using penstock::test::feature;
using penstock::test::float_feature;
using penstock::test::int_feature;

/// Row 7 is bad if asked for: its day is none.
Dataset records(std::int64_t rows, bool bad = false) {
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < rows; ++i) {
    Rng rng(8, static_cast<std::uint64_t>(i), 0);
    std::vector<std::string> tags(rng.below(4));
    std::vector<float> weights;
    for (std::string& tag : tags) {
      tag = "t" + std::to_string(rng.below(6));
      weights.push_back(static_cast<float>(rng.below(4)));
    }
    const std::int64_t day = bad && i == 7 ? 9 : static_cast<std::int64_t>(rng.below(7));
    std::string features = feature("day", int_feature({day})) +
                           feature("age", float_feature({static_cast<float>(rng.below(90))})) +
                           feature("answer", bytes_feature({rng.below(2) == 0 ? "no" : "yes"})) +
                           feature("steps", float_feature(std::vector<float>(2 * (i % 3), 0.5F)));
    if (!tags.empty())
      features += feature("tags", bytes_feature(tags)) + feature("weights", float_feature(weights));
    texts.push_back(example_of(features));
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return tensors({{"record", Tensor::of_bytes(views)}});
}

std::vector<ColumnPtr> columns() {
  NumericOptions steps;
  steps.shape = {2};
  steps.sequence = true;
  const ColumnPtr age = numeric_column("age");
  const ColumnPtr days = bucketized_column(age, {18, 65});
  const ColumnPtr tags = hash_bucket_column("tags", 100);
  return {age,
          days,
          numeric_column("steps", steps),
          indicator_column(identity_column("day", 7)),
          embedding_column(tags, {.dimension = 2}),
          weighted_column(tags, "weights"),
          crossed_column({"tags", days}, 50)};
}

const Label kAnswer{"answer", DType::bytes, {"no", "yes"}};

std::string text_of(Iterator iterator) {
  std::string all;
  for (;;) {
    Next next = iterator.next();
    if (next.is_end()) return all;
    if (next.is_error()) {
      all += "error\n";
      continue;
    }
    const Element& batch = next.value();
    all += std::to_string(batch.valid_rows) + " rows";
    for (std::size_t i = 0; i < batch.size(); ++i) {
      all += " " + batch.name(i) + " " + batch[i].shape().to_string();
      all.append(reinterpret_cast<const char*>(batch[i].data()), batch[i].nbytes());
    }
    all += "\n";
  }
}

Dataset as_they_are(const Dataset& elements) {
  return elements.map([](Element in) { return in; }, {.name = "same", .output = elements.spec()});
}

TEST(ColumnsExamples, AreWhatTheyAreParsedAndPackedOneByOne) {
  const Dataset examples = records(50);
  std::vector<FeatureSpec> features = parse_spec(columns());
  features.push_back(label_feature(kAnswer));
  const Dataset parsed = examples.map_op(parse_example(features));
  const Dataset fast = transform_columns(examples, columns(), kAnswer);
  const Dataset slow = transform_columns(parsed, columns(), kAnswer);
  EXPECT_EQ(fast.spec(), slow.spec());
  for (const std::int64_t size : {1, 7, 50, 64}) {
    const Dataset batches = as_they_are(slow).ragged_batch(size);
    const std::string wanted = text_of(batches.iterate({.threads = 1}));
    EXPECT_EQ(batches.spec(), fast.ragged_batch(size).spec());
    for (const Dataset& elements : {slow, as_they_are(fast), fast, fast.take(50)})
      for (const int threads : {1, 3})
        EXPECT_EQ(text_of(elements.ragged_batch(size).iterate({.threads = threads})), wanted);
  }
}

TEST(ColumnsExamples, BadExample) {
  const auto batches = [](bool packed, OnError policy) {
    const Dataset elements = transform_columns(records(20, true), columns(), kAnswer);
    return text_of((packed ? elements : as_they_are(elements))
                       .ragged_batch(5)
                       .iterate({.threads = 2, .on_error = policy}));
  };
  for (const OnError policy : {OnError::fail, OnError::skip})
    EXPECT_EQ(batches(true, policy), batches(false, policy));
  EXPECT_NE(batches(true, OnError::fail).find("error"), std::string::npos);
  EXPECT_EQ(batches(true, OnError::skip).find("error"), std::string::npos);
  penstock::test::expect_error(
      ErrorCode::mismatch, "column day: 9 in feature day is not one of its 7 ids", [] {
        for (Element& batch :
             transform_columns(records(20, true), columns()).ragged_batch(20).iterate())
          static_cast<void>(batch);
      });
}

TEST(ColumnsExamples, LabelBesideThem) {
  const Dataset beside = records(9).map([](const Element&) { return Tensor::copy_bytes("yes"); },
                                        {.name = "label", .adds = {{"answer", DType::bytes, {}}}});
  for (Element& element : transform_columns(beside, columns(), kAnswer).iterate())
    EXPECT_EQ(element["label"].item<std::int64_t>(), 1);
  penstock::test::expect_error(ErrorCode::invalid_argument, "no feature age in",
                               [] { static_cast<void>(transform_columns(range(3), columns())); });
}

}  // namespace
}  // namespace penstock::towers
