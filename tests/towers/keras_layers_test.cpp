// Columns against what Keras's preprocessing layers make of the same values; see
// tests/golden/keras_layers.py.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/iterator.h>
#include <penstock/sources.h>

#include <penstock/towers/columns/input_layer.h>
#include <penstock/towers/columns/transform.h>
#include "tests/support/places.h"
#include "towers/batch_rows.h"

namespace penstock::towers {
namespace {

using Ids = std::vector<std::int64_t>;

struct Line {
  std::vector<std::string> settings;
  std::vector<double> values;
};

/// Lines of this name.
std::vector<Line> golden(const std::string& name) {
  std::vector<Line> found;
  std::ifstream in(penstock::test::source_dir() + "/tests/golden/keras_layers.txt");
  for (std::string text; std::getline(in, text);) {
    std::istringstream words(text);
    std::string word;
    words >> word;
    if (word != name) continue;
    Line& line = found.emplace_back();
    while (words >> word && word != ":") line.settings.push_back(word);
    for (double value = 0; words >> value;) line.values.push_back(value);
  }
  EXPECT_FALSE(found.empty()) << name;
  return found;
}

std::vector<std::string> texts(const std::string& name) {
  std::vector<std::string> all;
  const Line line = golden(name).front();
  for (const std::string& hex : line.settings) {
    std::string& text = all.emplace_back();
    for (std::size_t i = 0; i < hex.size(); i += 2)
      text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return all;
}

Ids numbers(const std::string& name) {
  Ids all;
  const Line line = golden(name).front();
  for (const std::string& text : line.settings) all.push_back(std::stoll(text));
  return all;
}

std::vector<float> values() {
  std::vector<float> all;
  const Line line = golden("values").front();
  for (const std::string& text : line.settings) all.push_back(std::stof(text));
  return all;
}

/// {words, numbers, values, and of `ids` three in each row, with weights}
Dataset table() {
  const std::vector<std::string> words = texts("words");
  const Ids ints = numbers("numbers");
  const std::vector<float> floats = values();
  const std::vector<std::string_view> views(words.begin(), words.end());
  const auto rows = static_cast<std::int64_t>(words.size());
  return tensors({{"words", Tensor::of_bytes(views)},
                  {"numbers", Tensor::of<std::int64_t>({rows}, ints)},
                  {"values", Tensor::of<float>({rows}, floats)}});
}

Dataset id_table() {
  const Ids ids = numbers("ids");
  const auto rows = static_cast<std::int64_t>(ids.size()) / 3;
  std::vector<float> weights;
  for (std::int64_t row = 0; row < rows; ++row) weights.insert(weights.end(), {0.5F, 2, 1.25F});
  return tensors({{"ids", Tensor::of<std::int64_t>({rows, 3}, ids)},
                  {"weights", Tensor::of<float>({rows, 3}, weights)}});
}

Element batch_of(const Dataset& rows, const ColumnPtr& column) {
  const Dataset made = transform_columns(rows, {column});
  Element batch;
  for (Element& one : batch_rows(made, 1000).iterate({.threads = 1})) batch = std::move(one);
  return batch;
}

void expect_ids(const Line& line, const Dataset& rows, const ColumnPtr& column) {
  const Element element = batch_of(rows, column);
  const BatchIds got = ids_of(Batch(element), *column);
  EXPECT_EQ(std::vector<double>(got.ids.begin(), got.ids.end()), line.values) << column->name;
}

void expect_dense(const Line& line, const Dataset& rows, const ColumnPtr& column) {
  const Element element = batch_of(rows, column);
  VariableStore store(1, 0);
  Tables tables(store.tower(0));
  InputLayer layer(tables, {column});
  const Array& out = layer.forward(Batch(element));
  ASSERT_EQ(out.size(), line.values.size()) << column->name;
  for (std::size_t i = 0; i < out.size(); ++i)
    EXPECT_NEAR(out.data()[i], line.values[i], 1e-6 * std::max(1.0, std::abs(line.values[i])))
        << column->name << " at " << i;
}

TEST(KerasLayers, HashingAndCrossing) {
  for (const Line& line : golden("hashing_words"))
    expect_ids(line, table(), hash_bucket_column("words", std::stoll(line.settings[0])));
  for (const Line& line : golden("hashing_numbers"))
    expect_ids(line, table(),
               hash_bucket_column("numbers", std::stoll(line.settings[0]), {.dtype = DType::i64}));
  for (const Line& line : golden("crossing"))
    expect_ids(line, table(),
               crossed_column({"words", {"numbers", DType::i64}}, std::stoll(line.settings[0])));
}

TEST(KerasLayers, OutOfVocabularyLookups) {
  const auto behind = [](Line line, std::int64_t indices, std::size_t words) {
    for (double& id : line.values)
      id += id < static_cast<double>(indices) ? static_cast<double>(words)
                                              : -static_cast<double>(indices);
    return line;
  };
  const std::vector<std::string> vocabulary = texts("vocabulary");
  for (const Line& line : golden("string_lookup")) {
    const std::int64_t indices = std::stoll(line.settings[0]);
    expect_ids(behind(line, indices, vocabulary.size()), table(),
               vocabulary_column("words", vocabulary, {.oov_buckets = indices}));
  }
  const std::vector<std::string> known = golden("known_numbers").front().settings;
  for (const Line& line : golden("integer_lookup"))
    expect_ids(behind(line, 1, known.size()), table(),
               vocabulary_column("numbers", known, {.dtype = DType::i64, .oov_buckets = 1}));
}

TEST(KerasLayers, CategoryEncodings) {
  const ColumnPtr ids = identity_column("ids", 6, {.values = 3});
  expect_dense(golden("count").front(), id_table(), indicator_column(ids));
  expect_dense(golden("weighted_count").front(), id_table(),
               indicator_column(weighted_column(ids, "weights")));
  // Keras's multi_hot says that an id is there, and not how often.
  std::vector<double> there = golden("count").front().values;
  for (double& count : there) count = std::min(count, 1.0);
  EXPECT_EQ(there, golden("multi_hot").front().values);
  const Dataset first = id_table().map(
      [](const Element& in) {
        return Element{{"ids", in["ids"].slice(0, 0, 1).clone()}};
      },
      {.name = "first", .output = Spec({{"ids", DType::i64, {1}}})});
  expect_dense(golden("one_hot").front(), first,
               indicator_column(identity_column("ids", 6, {.values = 1})));
}

TEST(KerasLayers, NormalizationsAndDiscretizations) {
  for (const Line& line : golden("normalization")) {
    NumericOptions options;
    options.normalizer.subtract = std::stof(line.settings[0]);
    options.normalizer.divide = std::sqrt(std::stof(line.settings[1]));
    expect_dense(line, table(), numeric_column("values", options));
  }
  for (const Line& line : golden("discretization")) {
    std::vector<float> boundaries;
    for (const std::string& text : line.settings) boundaries.push_back(std::stof(text));
    expect_ids(line, table(), bucketized_column(numeric_column("values"), boundaries));
  }
}

}  // namespace
}  // namespace penstock::towers
