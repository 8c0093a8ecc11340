// Elements as bytes, and bytes that are none.
#include "pipeline/io/element_codec.h"

#include <cstring>

#include <gtest/gtest.h>

#include <penstock/internal/crc32c.h>

#include "tests/support/errors.h"

namespace penstock {
namespace {

using test::expect_error;

TEST(ElementCodec, KeepsEmptyTextsWhereverTheyStand) {
  const Tensor label = Tensor::scalar<std::int64_t>(1);
  const std::vector<std::string_view> mostly_empty(200, "");
  const struct {
    std::string what;
    Element element;
  } kFacts[] = {
      {"a scalar", Element({{"t", Tensor::copy_bytes("")}})},
      {"behind others", Element({{"x", label}, {"t", Tensor::copy_bytes("")}})},
      {"in front of others", Element({{"t", Tensor::copy_bytes("")}, {"x", label}})},
      {"many", Element({{"t", Tensor::of_bytes(mostly_empty)}})},
      {"none", Element({{"t", Tensor::of_bytes({})}})},
  };
  for (const auto& fact : kFacts) {
    SCOPED_TRACE(fact.what);
    const Element& element = fact.element;
    std::vector<ComponentSpec> components;
    for (std::size_t i = 0; i < element.size(); ++i) {
      components.push_back({element.name(i), element[i].dtype(), element[i].shape()});
    }
    std::vector<std::byte> bytes;
    encode_element(element, {}, bytes);
    const BufferPtr record = allocate_buffer(bytes.size());
    std::copy(bytes.begin(), bytes.end(), record->data());
    const Element back =
        decode_element(record, bytes.size(), Spec(std::move(components)), element.names());
    EXPECT_EQ(back["t"].shape(), element["t"].shape());
    for (std::int64_t i = 0; i < back["t"].volume(); ++i) EXPECT_EQ(back["t"].bytes_at(i), "");
  }
}

TEST(ElementCodec, KeepsEveryDtypeAndShape) {
  Element element({{"u8", Tensor::of<std::uint8_t>({2, 3}, {1, 2, 3, 4, 5, 6})},
                   {"f64", Tensor::scalar(2.5)},
                   {"text", Tensor::copy_bytes("hello")},
                   {"texts", Tensor::of_bytes(std::vector<std::string_view>{"a", "", "ccc"})},
                   {"empty", Tensor::of<float>({0, 4}, {})},
                   {"strided", Tensor::of<std::int32_t>({2, 2}, {1, 2, 3, 4}).slice(1, 1, 2)}});
  element.valid_rows = 2;
  Spec spec({{"u8", DType::u8, {2, Shape::kUnknown}},
             {"f64", DType::f64, {}},
             {"text", DType::bytes, {}},
             {"texts", DType::bytes, {Shape::kUnknown}},
             {"empty", DType::f32, Shape::unknown_rank()},
             {"strided", DType::i32, {2, 1}}});
  std::vector<std::byte> bytes;
  encode_element(element, {"shard-1", 12, 3, {}}, bytes);
  EXPECT_EQ(bytes.size() % 64, 0U);
  const auto decode = [&](std::span<const std::byte> record, const Spec& expected) {
    BufferPtr buffer = allocate_buffer(record.size());
    std::copy(record.begin(), record.end(), buffer->data());
    return decode_element(buffer, record.size(), expected, element.names());
  };
  const Element back = decode(bytes, spec);
  EXPECT_EQ(spec.mismatch(back), "");
  EXPECT_EQ(back.valid_rows, 2);
  EXPECT_EQ(back["u8"].to_vector<std::uint8_t>(), element["u8"].to_vector<std::uint8_t>());
  EXPECT_EQ(back["f64"].item<double>(), 2.5);
  EXPECT_EQ(back["text"].bytes_at(), "hello");
  EXPECT_EQ(back["texts"].bytes_at(2), "ccc");
  EXPECT_EQ(back["empty"].shape(), (Shape{0, 4}));
  EXPECT_EQ(back["strided"].to_vector<std::int32_t>(), (std::vector<std::int32_t>{2, 4}));
  const Provenance where = decode_origin(bytes);
  EXPECT_EQ(where.shard, "shard-1");
  EXPECT_EQ(where.offset, 12);
  EXPECT_EQ(where.index, 3);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW((void)decode(std::span(bytes).first(size), spec), Error) << size;
  }
  EXPECT_THROW((void)decode(bytes, Spec({{"u8", DType::u8, {2, 3}}})), Error);
}

Element batch_of(std::int64_t rows, std::int64_t valid_rows) {
  Element batch({{"x", Tensor::allocate(DType::i64, Shape{rows})}, {"loss", Tensor::scalar(1.5F)}});
  batch.valid_rows = valid_rows;
  return batch;
}

/// The record says so many valid rows, below 127, and its checksum is right.
void claim_valid_rows(std::vector<std::byte>& record, std::int64_t rows) {
  record[8] = static_cast<std::byte>(rows + 1);  // the header's first number
  const std::uint32_t sum = crc32c(std::span(record).subspan(4));
  std::memcpy(record.data(), &sum, sizeof(sum));
}

TEST(ElementCodec, NumberOfValidRows) {
  const Spec spec({{"x", DType::i64, {Shape::kUnknown}}, {"loss", DType::f32, {}}});
  std::vector<std::byte> bytes;
  encode_element(batch_of(4, 3), {}, bytes);
  const auto valid_rows_as_claimed = [&](std::int64_t rows) {
    claim_valid_rows(bytes, rows);
    const BufferPtr record = allocate_buffer(bytes.size());
    std::copy(bytes.begin(), bytes.end(), record->data());
    return decode_element(record, bytes.size(), spec, spec.names()).valid_rows;
  };
  for (const std::int64_t rows : {-1, 0, 1, 3, 4}) EXPECT_EQ(valid_rows_as_claimed(rows), rows);
  for (const std::int64_t rows : {5, 64, 126}) {
    expect_error(ErrorCode::data_loss, "more valid rows than rows",
                 [&] { (void)valid_rows_as_claimed(rows); });
  }
  expect_error(ErrorCode::invalid_argument, "5 valid rows",
               [&] { encode_element(batch_of(4, 5), {}, bytes); });
}

}  // namespace
}  // namespace penstock
