// Feature lists of tf.SequenceExamples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include <penstock/example_reader.h>
#include <penstock/sources.h>
#include <penstock/work.h>

#include "tests/support/context.h"
#include "tests/support/errors.h"
#include "tests/support/example.h"
#include "tests/support/places.h"

namespace penstock {
namespace sequence_example_test {

using test::bytes_feature;
using test::example_of;
using test::expect_error;
using test::feature;
using test::field;
using test::float_feature;
using test::int_feature;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Returns an entry of the map of feature lists.
std::string sequence(const std::string& name, const std::vector<std::string>& steps) {
  std::string list;
  for (const std::string& step : steps) list += field(1, step);
  return field(1, field(1, name) + field(2, list));
}

std::string sequence_example(const std::string& context, const std::string& lists) {
  return field(1, context) + field(2, lists);
}

WorkItem parse(const std::string& record, std::vector<FeatureSpec> context,
               std::vector<SequenceSpec> sequences, Limits limits = {}) {
  const WorkOpPtr op =
      parse_sequence_example(std::move(context), std::move(sequences), "record", limits);
  WorkItem item;
  item.element.set("record", Tensor::copy_bytes(record));
  test::HeapContext memory;
  op->run({&item, 1}, memory);
  return item;
}

std::string cause(const WorkItem& item) {
  return item.status.ok() ? "no error" : std::string(item.status.error().cause());
}

const std::string kRecord = sequence_example(
    feature("id", int_feature({7})) + feature("name", bytes_feature({"film"})),
    sequence("tokens", {int_feature({1, 2}), int_feature({}), int_feature({3}, false)}) +
        sequence("frames", {bytes_feature({"one"}), bytes_feature({"two"})}) +
        sequence("rgb", {float_feature({1, 2}), float_feature({3, 4}), float_feature({5, 6})}));

TEST(SequenceExample, ContextAndSequences) {
  const std::vector<FeatureSpec> context{{.key = "id", .dtype = DType::i64}, {.key = "name"}};
  const std::vector<SequenceSpec> sequences{{.key = "tokens", .dtype = DType::i64},
                                            {.key = "frames", .step = Shape(), .component = "f"},
                                            {.key = "rgb", .dtype = DType::f32, .step = Shape({2})},
                                            {.key = "none", .dtype = DType::f32}};
  EXPECT_EQ(parse_sequence_example(context, sequences)
                ->infer(Spec({{"record", DType::bytes, {}}, {"n", DType::i64, {}}}))
                .to_string(),
            "{id: i64 [], name: bytes [], tokens: i64 [?], tokens.step_splits: i64 [?], "
            "f: bytes [?], rgb: f32 [?,2], none: f32 [?], none.step_splits: i64 [?], n: i64 []}");
  const WorkItem item = parse(kRecord, context, sequences);
  ASSERT_EQ(cause(item), "no error");
  const Element& e = item.element;
  EXPECT_EQ(e["id"].item<std::int64_t>(), 7);
  EXPECT_EQ(e["name"].bytes_at(), "film");
  EXPECT_THAT(e["tokens"].to_vector<std::int64_t>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(e["tokens.step_splits"].to_vector<std::int64_t>(), ElementsAre(0, 2, 2, 3));
  ASSERT_EQ(e["f"].shape(), Shape({2}));
  EXPECT_EQ(e["f"].bytes_at(1), "two");
  EXPECT_EQ(e["rgb"].shape(), Shape({3, 2}));
  EXPECT_THAT(e["rgb"].to_vector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(e["none"].shape(), Shape({0}));
  EXPECT_THAT(e["none.step_splits"].to_vector<std::int64_t>(), ElementsAre(0));
}

/// Returns the text of golden outcomes, or "error".
std::string outcome_of(const SequenceSpec& spec, const std::string& record) {
  const WorkItem item = parse(record, {}, {spec});
  if (!item.status.ok()) return "error";
  const Tensor& values = item.element["x"];
  std::ostringstream out;
  for (int i = 0; i < values.rank(); ++i) out << (i > 0 ? "x" : "") << values.shape()[i];
  out << ' ';
  for (std::int64_t i = 0; i < values.volume(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i > 0) out << ',';
    if (values.dtype() == DType::i64) out << values.values<std::int64_t>()[at];
    if (values.dtype() == DType::f32) out << values.values<float>()[at];
    if (values.dtype() == DType::bytes)
      for (const char c : values.bytes_at(i)) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        const auto byte = static_cast<unsigned char>(c);
        out << kDigits[byte / 16U] << kDigits[byte % 16U];
      }
  }
  if (values.volume() == 0) out << "none";
  if (spec.step) return out.str() + " none";
  const std::vector<std::int64_t> splits = item.element["x.step_splits"].to_vector<std::int64_t>();
  for (std::size_t i = 0; i < splits.size(); ++i) out << (i == 0 ? ' ' : ',') << splits[i];
  return out.str();
}

/// Writes numbers of f32 as the program does.
std::string with_short_floats(const std::string& dtype, const std::string& golden) {
  std::istringstream in(golden);
  std::string shape, values, splits;
  if (dtype != "f32" || !(in >> shape >> values >> splits) || values == "none") return golden;
  std::ostringstream out;
  std::istringstream numbers(values);
  for (std::string number; std::getline(numbers, number, ',');)
    out << (out.tellp() > 0 ? "," : "") << std::stof(number);
  return shape + " " + out.str() + " " + splits;
}

TEST(SequenceExample, EqualsTensorFlow) {
  std::ifstream in(test::source_dir() + "/tests/golden/sequences_tf.txt");
  int cases = 0;
  for (std::string line; std::getline(in, line); ++cases) {
    std::istringstream parts(line);
    std::string dtype, shape, missing, hex, wanted;
    parts >> dtype >> shape >> missing;
    std::getline(parts.ignore(), hex, ' ');
    std::getline(parts, wanted);
    std::string record;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
      record.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    SequenceSpec spec{.key = "x", .dtype = dtype_from_name(dtype)};
    spec.allow_missing = missing == "missing";
    if (shape == "[]") spec.step = Shape();
    if (shape == "[1]") spec.step = Shape({1});
    if (shape == "[2]") spec.step = Shape({2});
    if (shape == "[2x2]") spec.step = Shape({2, 2});
    EXPECT_EQ(outcome_of(spec, record), with_short_floats(dtype, wanted)) << line;
  }
  EXPECT_EQ(cases, 171);
}

TEST(SequenceExample, PlacesOfErrors) {
  const SequenceSpec tokens{.key = "tokens", .dtype = DType::i64, .step = Shape()};
  EXPECT_THAT(cause(parse(kRecord, {}, {tokens})),
              AllOf(HasSubstr("sequence 'tokens': step 0: its 2 values do not make the shape []"),
                    HasSubstr("a sequence without a shape has any number")));
  EXPECT_EQ(cause(parse(kRecord, {}, {{.key = "rgb", .dtype = DType::i64}})),
            "sequence 'rgb': step 0: it holds f32, not i64");
  EXPECT_EQ(cause(parse(kRecord, {}, {{.key = "no", .step = Shape()}})),
            "sequence 'no': it is missing");
  EXPECT_EQ(cause(parse(kRecord, {{.key = "no"}}, {{.key = "rgb", .dtype = DType::f32}})),
            "feature 'no': it is missing and has no default; the record is a tf.SequenceExample, "
            "whose context lacks it");
  EXPECT_THAT(cause(parse(field(2, sequence("x", {int_feature({1})}) + "\x0a\x7f"), {},
                          {{.key = "x", .dtype = DType::i64}})),
              HasSubstr("not a protocol buffer message"));
}

TEST(SequenceExample, FeaturesInLists) {
  for (const char* key : {"tokens", "frames"}) {
    const FeatureSpec wanted{.key = key, .dtype = DType::i64};
    EXPECT_THAT(cause(parse(kRecord, {wanted}, {})),
                AllOf(HasSubstr("is a tf.SequenceExample, in which it is a feature list"),
                      HasSubstr("--sequence")));
    ExampleReader reader({wanted});
    expect_error(ErrorCode::data_loss, "tf.SequenceExample", [&] { reader.read(kRecord); });
  }
  EXPECT_THAT(cause(parse(example_of(feature("a", int_feature({1}))), {{.key = "b"}}, {})),
              Not(HasSubstr("SequenceExample")));
  // The context of a SequenceExample has the features of an Example.
  EXPECT_EQ(cause(parse(kRecord, {{.key = "id", .dtype = DType::i64}}, {})), "no error");
}

TEST(SequenceExample, JoinedMessages) {
  const std::string joined = kRecord +
                             sequence_example("", sequence("tokens", {int_feature({9})})) +
                             field(2, sequence("rgb", {}));
  const WorkItem item =
      parse(joined, {{.key = "id", .dtype = DType::i64}},
            {{.key = "tokens", .dtype = DType::i64},
             {.key = "rgb", .dtype = DType::f32},
             {.key = "tokens", .dtype = DType::i64, .step = Shape(), .component = "again"}});
  ASSERT_EQ(cause(item), "no error");
  EXPECT_THAT(item.element["tokens"].to_vector<std::int64_t>(), ElementsAre(9));
  EXPECT_THAT(item.element["again"].to_vector<std::int64_t>(), ElementsAre(9));
  EXPECT_EQ(item.element["rgb"].volume(), 0);
}

TEST(SequenceExample, TruncationAtEveryByte) {
  for (std::size_t cut = 0; cut < kRecord.size(); ++cut) {
    const WorkItem item =
        parse(kRecord.substr(0, cut), {}, {{.key = "tokens", .dtype = DType::i64}});
    if (item.status.ok()) {
      EXPECT_LE(item.element["tokens"].volume(), 3) << cut;
    } else {
      EXPECT_EQ(item.status.error().code(), ErrorCode::data_loss) << cut;
    }
  }
}

TEST(SequenceExample, RefusesSpecs) {
  const SequenceSpec wrong[] = {{.key = "x", .dtype = DType::f64},
                                {.key = "x", .step = Shape({-1})},
                                {.key = "x", .step = Shape({1, 1, 1, 1, 1, 1})}};
  for (const SequenceSpec& spec : wrong)
    expect_error(ErrorCode::invalid_argument, "sequence 'x'",
                 [&] { parse_sequence_example({}, {spec}); });
  expect_error(ErrorCode::invalid_argument, "no features are asked for",
               [] { parse_sequence_example({}, {}); });
}

}  // namespace sequence_example_test
}  // namespace penstock
