#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/sources.h>
#include <penstock/work.h>

#include "tests/support/context.h"
#include "tests/support/errors.h"
#include "tests/support/example.h"
#include "tests/support/files.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using test::bytes_feature;
using test::example_of;
using test::feature;
using test::field;
using test::float_feature;
using test::int_feature;
using test::tag;
using test::varint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const FeatureSpec kImage{.key = "image"};
const FeatureSpec kLabel{.key = "label", .dtype = DType::i64};
const FeatureSpec kBox{.key = "box", .dtype = DType::f32, .shape = Shape({2, 2})};

/// Runs the op on one record and returns its item.
WorkItem parse(const std::string& record, std::vector<FeatureSpec> features,
               test::HeapContext context = test::HeapContext()) {
  const WorkOpPtr op = parse_example(std::move(features));
  WorkItem item;
  item.element.set("record", Tensor::copy_bytes(record));
  op->run({&item, 1}, context);
  return item;
}

/// The cause of the error that parsing ends with.
std::string cause(const std::string& record, std::vector<FeatureSpec> features) {
  const WorkItem item = parse(record, std::move(features));
  return item.status.ok() ? "no error" : item.status.error().cause();
}

TEST(ParseExample, EveryTypeAndShape) {
  const std::string record =
      example_of(feature("image", bytes_feature({"pixels"})) + feature("label", int_feature({-7})) +
                 feature("box", float_feature({1, 2.5f, -3, 1e30f})) +
                 feature("words", bytes_feature({"a", "", "ccc"})) +
                 feature("ids", int_feature({0, 1, 127, 128, INT64_MAX, INT64_MIN, -1})));
  const WorkItem item = parse(
      record, {kImage,
               kLabel,
               kBox,
               {.key = "words", .shape = Shape({-1})},
               {.key = "ids", .dtype = DType::i64, .shape = Shape({-1}), .component = "n"},
               {.key = "box", .dtype = DType::f32, .shape = Shape({-1, 2}), .component = "rows"}});
  ASSERT_TRUE(item.status.ok()) << item.status.error().what();
  const Element& e = item.element;
  EXPECT_EQ(e["image"].bytes_at(), "pixels");
  EXPECT_EQ(e["label"].item<std::int64_t>(), -7);
  EXPECT_EQ(e["box"].shape(), Shape({2, 2}));
  EXPECT_THAT(e["box"].to_vector<float>(), ElementsAre(1, 2.5f, -3, 1e30f));
  EXPECT_EQ(e["words"].shape(), Shape({3}));
  EXPECT_EQ(e["words"].bytes_at(0), "a");
  EXPECT_EQ(e["words"].bytes_at(1), "");
  EXPECT_EQ(e["words"].bytes_at(2), "ccc");
  EXPECT_THAT(e["n"].to_vector<std::int64_t>(),
              ElementsAre(0, 1, 127, 128, INT64_MAX, INT64_MIN, -1));
  EXPECT_EQ(e["rows"].shape(), Shape({2, 2}));
  EXPECT_EQ(e.size(), 6u);
}

TEST(ParseExample, PackedAndUnpackedValues) {
  for (const bool packed : {true, false}) {
    const WorkItem item = parse(example_of(feature("label", int_feature({300}, packed)) +
                                           feature("box", float_feature({1, 2, 3, 4}, packed))),
                                {kLabel, kBox});
    ASSERT_TRUE(item.status.ok());
    EXPECT_EQ(item.element["label"].item<std::int64_t>(), 300);
    EXPECT_THAT(item.element["box"].to_vector<float>(), ElementsAre(1, 2, 3, 4));
  }
  // A list in pieces, some packed and some not, is one list.
  const std::string mixed = field(3, field(1, varint(1) + varint(2)) + tag(1, 0) + varint(3)) +
                            field(3, field(1, varint(4)));
  const WorkItem item = parse(example_of(feature("ids", mixed)),
                              {{.key = "ids", .dtype = DType::i64, .shape = Shape({-1})}});
  EXPECT_THAT(item.element["ids"].to_vector<std::int64_t>(), ElementsAre(1, 2, 3, 4));
}

TEST(ParseExample, JoinedMessages) {
  const std::string one =
      example_of(feature("label", int_feature({1})) + feature("image", bytes_feature({"one"})));
  const std::string two = example_of(feature("label", int_feature({2})));
  const WorkItem item = parse(one + two, {kLabel, kImage});
  EXPECT_EQ(item.element["label"].item<std::int64_t>(), 2);
  EXPECT_EQ(item.element["image"].bytes_at(), "one");
  const WorkItem kind =
      parse(example_of(feature("label", bytes_feature({"not this"}) + int_feature({3}))), {kLabel});
  EXPECT_EQ(kind.element["label"].item<std::int64_t>(), 3);
}

TEST(ParseExample, DefaultsOfMissingFeatures) {
  FeatureSpec label = kLabel;
  label.default_value = Tensor::scalar<std::int64_t>(-1);
  EXPECT_EQ(parse("", {label}).element["label"].item<std::int64_t>(), -1);
  EXPECT_EQ(parse(example_of(feature("label", "")), {label}).element["label"].item<std::int64_t>(),
            -1);
  EXPECT_EQ(cause(example_of(feature("label", int_feature({}))), {label}),
            "feature 'label': 0 values do not make the shape []");
  EXPECT_EQ(cause("", {kLabel}), "feature 'label': it is missing and has no default");
  EXPECT_EQ(cause(example_of(feature("label", "")), {kLabel}),
            "feature 'label': it is missing and has no default");
  const WorkItem empty = parse(example_of(feature("ids", int_feature({}))),
                               {{.key = "ids", .dtype = DType::i64, .shape = Shape({-1})}});
  EXPECT_EQ(empty.element["ids"].shape(), Shape({0}));
}

TEST(ParseExample, WrongTypesAndCounts) {
  const std::string record =
      example_of(feature("label", float_feature({1})) + feature("box", float_feature({1, 2, 3})) +
                 feature("image", bytes_feature({"a", "b"})));
  EXPECT_EQ(cause(record, {kLabel}), "feature 'label': it holds f32, not i64");
  EXPECT_EQ(cause(record, {kBox}), "feature 'box': 3 values do not make the shape [2,2]");
  EXPECT_EQ(cause(record, {kImage}), "feature 'image': 2 values do not make the shape []");
  EXPECT_EQ(cause(record, {{.key = "box", .dtype = DType::f32, .shape = Shape({-1, 2})}}),
            "feature 'box': 3 values do not make the shape [?,2]");
  EXPECT_EQ(cause(example_of(feature("box", field(2, field(1, "12345")))), {kBox}),
            "feature 'box': packed floats of 5 bytes");
}

TEST(ParseExample, UnknownFields) {
  const std::string noise = tag(9, 0) + varint(5) + tag(10, 1) + std::string(8, 'x') + tag(11, 5) +
                            "abcd" + field(12, "text") + tag(13, 3) + tag(14, 3) + tag(1, 0) +
                            varint(1) + tag(14, 4) + tag(13, 4);
  const std::string entry =
      field(1, noise + field(2, noise + int_feature({8}) + noise) + noise + field(1, "label"));
  const WorkItem item = parse(noise + field(1, noise + entry + noise) + noise, {kLabel});
  ASSERT_TRUE(item.status.ok()) << item.status.error().what();
  EXPECT_EQ(item.element["label"].item<std::int64_t>(), 8);
}

TEST(ParseExample, ViewOfTheRecord) {
  const std::string record = example_of(feature("image", bytes_feature({test::noise(10'000)})));
  const WorkOpPtr op = parse_example({kImage});
  test::HeapContext context;
  const BufferPtr buffer = allocate_buffer(record.size());
  std::memcpy(buffer->data(), record.data(), record.size());
  WorkItem item;
  item.element.set("record",
                   Tensor::bytes({reinterpret_cast<char*>(buffer->data()), record.size()}, buffer));
  op->run({&item, 1}, context);
  ASSERT_TRUE(item.status.ok());
  EXPECT_EQ(item.element["image"].owner(), buffer);
  EXPECT_EQ(item.element["image"].bytes_at(), test::noise(10'000));
  EXPECT_EQ(context.allocations, 0u);
}

TEST(ParseExample, FixedSizes) {
  const std::string record =
      example_of(feature("label", int_feature({5})) + feature("box", float_feature({1, 2, 3, 4})));
  std::int64_t labels[2] = {};
  float boxes[2][4] = {};
  std::byte* const bases[] = {reinterpret_cast<std::byte*>(boxes),
                              reinterpret_cast<std::byte*>(labels)};
  const std::size_t strides[] = {16, 8};
  WorkItem item;
  item.element.set("record", Tensor::copy_bytes(record));
  item.row = Row(bases, strides, 1);
  test::HeapContext context;
  parse_example({kBox, kLabel})->run({&item, 1}, context);
  ASSERT_TRUE(item.status.ok());
  EXPECT_EQ(labels[1], 5);
  EXPECT_EQ(boxes[1][3], 4.0f);
  EXPECT_EQ(boxes[0][3], 0.0f);
  EXPECT_EQ(item.element["box"].data(), reinterpret_cast<std::byte*>(boxes[1]));
}

TEST(ParseExample, ReplacedComponent) {
  const WorkOpPtr op = parse_example({kImage, kLabel}, "proto");
  const Spec input(
      {{"id", DType::i64, {}}, {"proto", DType::bytes, {}}, {"key", DType::bytes, {}}});
  EXPECT_EQ(op->infer(input).to_string(),
            "{id: i64 [], image: bytes [], label: i64 [], key: bytes []}");
  std::vector<WorkItem> items(3);
  for (WorkItem& item : items) {
    item.element.set("id", Tensor::scalar<std::int64_t>(9));
    item.element.set("proto",
                     Tensor::copy_bytes(example_of(feature("label", int_feature({1})) +
                                                   feature("image", bytes_feature({"x"})))));
    item.element.set("key", Tensor::copy_bytes("k"));
  }
  items[1].element["proto"] = Tensor::copy_bytes("\x0a");
  items[2].status = Status(ErrorCode::data_loss, "before");
  test::HeapContext context;
  op->run(items, context);
  ASSERT_TRUE(items[0].status.ok());
  EXPECT_EQ(op->infer(input).mismatch(items[0].element), "");
  EXPECT_EQ(items[0].element["key"].bytes_at(), "k");
  EXPECT_EQ(items[0].element["id"].item<std::int64_t>(), 9);
  EXPECT_FALSE(items[1].status.ok());
  EXPECT_EQ(items[2].status.error().cause(), "before");
}

TEST(ParseExample, WrongUse) {
  const Spec records({{"record", DType::bytes, {}}});
  test::expect_error(ErrorCode::invalid_argument, "no features", [] { parse_example({}); });
  test::expect_error(ErrorCode::invalid_argument, "bytes, f32 or i64",
                     [] { parse_example({{.key = "x", .dtype = DType::u8}}); });
  test::expect_error(ErrorCode::invalid_argument, "one unknown dimension", [] {
    parse_example({{.key = "x", .shape = Shape({-1, -1})}});
  });
  test::expect_error(ErrorCode::invalid_argument, "default of another dtype", [] {
    parse_example({{.key = "x", .dtype = DType::i64, .default_value = Tensor::scalar<float>(0)}});
  });
  test::expect_error(ErrorCode::not_found, "other",
                     [&] { parse_example({kLabel}, "other")->infer(records); });
  test::expect_error(ErrorCode::invalid_argument, "must be bytes", [] {
    parse_example({kLabel})->infer(Spec({{"record", DType::i64, {}}}));
  });
}

// ---- Hostile bytes: FAULTS F28.

std::string rich_record() {
  return example_of(
      feature("image", bytes_feature({test::noise(40)})) + feature("label", int_feature({1})) +
      feature("box", float_feature({1, 2, 3, 4})) + feature("words", bytes_feature({"a", "bb"})));
}

const std::vector<FeatureSpec> kRich = {
    kImage, kLabel, kBox, {.key = "words", .shape = Shape({-1})}};

TEST(ParseExampleHostile, TruncationAtEveryByte) {
  const std::string record = rich_record();
  ASSERT_EQ(cause(record, kRich), "no error");
  for (std::size_t cut = 0; cut < record.size(); ++cut)
    EXPECT_NE(cause(record.substr(0, cut), kRich), "no error") << cut;
}

TEST(ParseExampleHostile, RandomDamage) {
  const std::string record = rich_record();
  for (std::size_t bit = 0; bit < record.size() * 8; ++bit) {
    std::string damaged = record;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    parse(damaged, kRich);
  }
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    std::string damaged = record;
    const std::string dice = test::noise(16, seed);
    for (int i = 0; i < 4; ++i)
      damaged[static_cast<unsigned char>(dice[i]) % damaged.size()] = dice[i + 8];
    parse(damaged, kRich);
    parse(test::noise(seed % 64, seed), kRich);
  }
}

TEST(ParseExampleHostile, WrongLengths) {
  for (const std::uint64_t length : {std::uint64_t{100}, std::uint64_t{1} << 31,
                                     std::uint64_t{1} << 32, std::uint64_t{1} << 63, UINT64_MAX}) {
    EXPECT_THAT(cause(tag(1, 2) + varint(length), {kLabel}), HasSubstr("longer than what remains"));
    EXPECT_THAT(cause(example_of(feature("label", tag(3, 2) + varint(length))), {kLabel}),
                HasSubstr("longer than what remains"));
  }
  EXPECT_THAT(cause(std::string(20, '\xff'), {kLabel}), HasSubstr("varint does not end"));
  EXPECT_THAT(cause(std::string("\0\0", 2), {kLabel}), HasSubstr("field number"));
  EXPECT_THAT(cause(tag(1, 6), {kLabel}), HasSubstr("wire type"));
  EXPECT_THAT(cause(tag(1, 4), {kLabel}), HasSubstr("wire type"));
  std::string deep;
  for (int i = 0; i < 1'000'000; ++i) deep += tag(2, 3);
  EXPECT_THAT(cause(deep, {kLabel}), HasSubstr("nested too deeply"));
  EXPECT_THAT(cause(tag(2, 3) + tag(3, 4), {kLabel}), HasSubstr("group ends"));
}

TEST(ParseExampleHostile, BoundedMemory) {
  const std::string ones(100'000, '\x01');
  const WorkOpPtr ints = parse_example({{.key = "x", .dtype = DType::i64, .shape = Shape({-1})}});
  const WorkOpPtr texts = parse_example({{.key = "x", .shape = Shape({-1})}});
  const std::string many_ints = example_of(feature("x", field(3, field(1, ones))));
  std::string empties;
  for (int i = 0; i < 50'000; ++i) empties += field(1, "");
  const std::string many_texts = example_of(feature("x", field(1, empties)));
  for (const auto& [op, record] : {std::pair(ints, many_ints), std::pair(texts, many_texts)}) {
    test::HeapContext context;
    WorkItem item;
    item.element.set("record", Tensor::copy_bytes(record));
    op->run({&item, 1}, context);
    EXPECT_TRUE(item.status.ok());
    EXPECT_LE(context.allocated_bytes, 8 * record.size());
  }
}

}  // namespace
}  // namespace penstock
