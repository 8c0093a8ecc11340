// ExampleReader against parse_example, of which it is the fast way.
#include <penstock/example_reader.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/rng.h>
#include <penstock/work.h>

#include "tests/support/context.h"
#include "tests/support/errors.h"
#include "tests/support/example.h"

namespace penstock {
namespace {

using test::bytes_feature;
using test::example_of;
using test::feature;
using test::float_feature;
using test::int_feature;

std::vector<FeatureSpec> specs() {
  return {{.key = "word"},
          {.key = "words", .shape = {-1}, .default_value = Tensor::of_bytes({}).reshape({0})},
          {.key = "box", .dtype = DType::f32, .shape = {2, 2}},
          {.key = "x",
           .dtype = DType::f32,
           .shape = {1},
           .default_value = Tensor::of<float>({1}, {0.5F})},
          {.key = "pairs", .dtype = DType::f32, .shape = {-1, 2}},
          {.key = "ids", .dtype = DType::i64, .shape = {-1}},
          {.key = "id", .dtype = DType::i64}};
}

std::string record(std::uint64_t i) {
  Rng rng(4, i, 0);
  const auto words = [&] {
    std::vector<std::string> all(rng.below(4));
    for (std::string& word : all) word = std::string(rng.below(200), 'w');
    return all;
  };
  std::string features =
      feature("word", bytes_feature({std::string(rng.below(3), 'a')})) +
      feature("box", float_feature({1, 2.5F, -3, 1e30F})) +
      feature("pairs", float_feature(rng.below(2) == 0 ? std::vector<float>{1, 2}
                                                       : std::vector<float>{1, 2, 3, 4})) +
      feature("id", int_feature({static_cast<std::int64_t>(rng.below(1000)) - 500})) +
      feature("ids", int_feature({0, 127, 128, INT64_MAX, INT64_MIN, -1}));
  if (rng.below(2) == 0) features += feature("words", bytes_feature(words()));
  if (rng.below(2) == 0) features += feature("x", float_feature({7}));
  if (rng.below(3) == 0) features += feature("nobody's", bytes_feature({"text"}));
  if (rng.below(9) == 0) features += feature("id", int_feature({3}));  // the last counts
  return example_of(features);
}

std::string raw(const Tensor& tensor) {
  if (tensor.dtype() != DType::bytes)
    return {reinterpret_cast<const char*>(tensor.data()), tensor.nbytes()};
  std::string all;
  for (std::int64_t i = 0; i < tensor.volume(); ++i) all += std::string(tensor.bytes_at(i)) + "|";
  return all;
}

template <typename T>
std::string raw(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

/// Values of all features, or the error.
std::string by_op(const std::string& bytes) {
  static const WorkOpPtr op = parse_example(specs());
  test::HeapContext context;
  WorkItem item;
  item.element.set("record", Tensor::copy_bytes(bytes));
  op->run({&item, 1}, context);
  if (!item.status.ok()) return "error: " + item.status.error().cause();
  std::string all;
  for (std::size_t i = 0; i < item.element.size(); ++i) all += raw(item.element[i]) + ";";
  return all;
}

std::string by_reader(ExampleReader& reader, const std::string& bytes) try {
  reader.read(bytes);
  std::string all;
  for (std::size_t i = 0; i < reader.size(); ++i) {
    const DType dtype = specs()[i].dtype;
    for (const std::string_view text : reader.texts(i)) all += std::string(text) + "|";
    all += dtype == DType::f32   ? raw(reader.floats(i))
           : dtype == DType::i64 ? raw(reader.integers(i))
                                 : "";
    all += ";";
  }
  return all;
} catch (const Error& error) {
  return "error: " + error.cause();
}

/// Errors without what is wrong in detail, of which there may be several things.
std::string in_short(const std::string& values) {
  return values.starts_with("error") ? values.substr(0, values.find("': ")) : values;
}

TEST(ExampleReader, HasTheValuesOfParseExample) {
  ExampleReader reader(specs());
  for (std::uint64_t i = 0; i < 200; ++i)
    ASSERT_EQ(by_reader(reader, record(i)), by_op(record(i))) << i;
}

TEST(ExampleReader, SaysTheSameOfWhatIsDamagedOrWrittenOtherwise) {
  ExampleReader reader(specs());
  int errors = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    Rng rng(5, i, 0);
    std::string bytes = record(i % 20);
    for (std::uint64_t n = rng.below(3) + 1; n > 0; --n)
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    if (rng.below(4) == 0) bytes.resize(rng.below(bytes.size()));
    const std::string wanted = by_op(bytes);
    errors += wanted.starts_with("error") ? 1 : 0;
    ASSERT_EQ(in_short(by_reader(reader, bytes)), in_short(wanted)) << i;
  }
  EXPECT_GT(errors, 500);
  EXPECT_LT(errors, 2900);
  // Lists in parts, and numbers that are not packed.
  const std::string id = test::field(3, test::tag(1, 0) + test::varint(9));
  const std::string ids = test::field(3, test::tag(1, 0) + test::varint(1)) +
                          test::field(3, test::tag(1, 0) + test::varint(2));
  const std::string parts = example_of(
      feature("word", bytes_feature({"a"})) + feature("box", float_feature({1, 2, 3, 4})) +
      feature("pairs", float_feature({})) + feature("id", id) + feature("ids", ids));
  EXPECT_EQ(by_reader(reader, parts), by_op(parts));
  EXPECT_FALSE(by_op(parts).starts_with("error")) << by_op(parts);
}

TEST(ExampleReader, RefusesWhatCantBe) {
  test::expect_error(ErrorCode::invalid_argument, "feature 'x' must be bytes, f32 or i64",
                     [] { ExampleReader({{.key = "x", .dtype = DType::f64}}); });
}

}  // namespace
}  // namespace penstock
