#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/c.h>

#include "pipelines/c/arrow.h"
#include "pipelines/c/handles.h"
#include "tests/pipelines/c_handles.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

/// A record batch, released at the end of the scope.
struct Arrow {
  explicit Arrow(const ElementPtr& element) {
    EXPECT_EQ(penstock_element_arrow(element.get(), &schema, &array), PENSTOCK_OK)
        << penstock_error();
  }
  Arrow(const Arrow&) = delete;
  Arrow& operator=(const Arrow&) = delete;
  ~Arrow() {
    if (schema.release != nullptr) schema.release(&schema);
    if (array.release != nullptr) array.release(&array);
  }

  ArrowSchema schema{};
  ArrowArray array{};
};

ElementPtr element_of(Element element) {
  return ElementPtr(new penstock_element{std::move(element)});
}

TEST(CArrow, SharesTheBatchAndOutlivesIt) {
  const TimeLimit limit(60);
  ElementPtr batch = next(start(parse(numbers(100))));
  const std::vector<std::int64_t> values = values_of(batch);
  const void* const data = column_of(batch).data;
  const Arrow arrow(batch);
  batch.reset();
  EXPECT_STREQ(arrow.schema.format, "+s");
  ASSERT_EQ(arrow.schema.n_children, 1);
  EXPECT_STREQ(arrow.schema.children[0]->format, "l");
  EXPECT_STREQ(arrow.schema.children[0]->name, "value");
  EXPECT_EQ(arrow.array.length, 4);
  EXPECT_EQ(arrow.array.n_buffers, 1);
  ASSERT_EQ(arrow.array.n_children, 1);
  const ArrowArray& column = *arrow.array.children[0];
  EXPECT_EQ(column.length, 4);
  EXPECT_EQ(column.null_count, 0);
  ASSERT_EQ(column.n_buffers, 2);
  EXPECT_EQ(column.buffers[0], nullptr);
  EXPECT_EQ(column.buffers[1], data);
  const auto* const shared = static_cast<const std::int64_t*>(column.buffers[1]);
  EXPECT_EQ(std::vector<std::int64_t>(shared, shared + 4), values);
}

TEST(CArrow, LaysOutEachKindOfColumn) {
  Element element{{"image", Tensor::of<float>({2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})},
                  {"text", Tensor::of_bytes(std::vector<std::string_view>{"one", ""})},
                  {"flag", Tensor::of<bool>({2}, {false, true})},
                  {"strided", Tensor::of<std::int32_t>({4}, {1, 2, 3, 4}).slice(0, 0, 4, 2)}};
  element.valid_rows = 2;
  const Arrow arrow(element_of(std::move(element)));
  ASSERT_EQ(arrow.array.n_children, 4);
  const ArrowSchema* type = arrow.schema.children[0];
  const ArrowArray* array = arrow.array.children[0];
  EXPECT_STREQ(type->format, "+w:2");
  EXPECT_STREQ(type->children[0]->format, "+w:3");
  EXPECT_STREQ(type->children[0]->children[0]->format, "f");
  EXPECT_EQ(array->length, 2);
  EXPECT_EQ(array->children[0]->length, 4);
  ASSERT_EQ(array->children[0]->children[0]->length, 12);
  EXPECT_EQ(static_cast<const float*>(array->children[0]->children[0]->buffers[1])[11], 11);

  EXPECT_STREQ(arrow.schema.children[1]->format, "Z");
  array = arrow.array.children[1];
  ASSERT_EQ(array->n_buffers, 3);
  const auto* const offsets = static_cast<const std::int64_t*>(array->buffers[1]);
  EXPECT_EQ(std::vector<std::int64_t>(offsets, offsets + 3), (std::vector<std::int64_t>{0, 3, 3}));
  EXPECT_EQ(std::string(static_cast<const char*>(array->buffers[2]), 3), "one");

  EXPECT_STREQ(arrow.schema.children[2]->format, "b");
  EXPECT_EQ(*static_cast<const std::uint8_t*>(arrow.array.children[2]->buffers[1]), 2);

  EXPECT_STREQ(arrow.schema.children[3]->format, "i");
  EXPECT_EQ(static_cast<const std::int32_t*>(arrow.array.children[3]->buffers[1])[1], 3);
}

TEST(CArrow, HasOnlyRowsWithSamples) {
  Element element{{"x", Tensor::of<std::int32_t>({3}, {1, 2, 0})}};
  element.valid_rows = 2;
  const Arrow arrow(element_of(std::move(element)));
  EXPECT_EQ(arrow.array.length, 2);
  EXPECT_EQ(arrow.array.children[0]->length, 2);
}

TEST(CArrow, LetsAConsumerTakeAColumnOut) {
  ArrowSchema schema{};
  ArrowArray column{};
  {
    Arrow arrow(next(start(parse(numbers(100)))));
    schema = *arrow.schema.children[0];
    column = *arrow.array.children[0];
    arrow.schema.children[0]->release = nullptr;
    arrow.array.children[0]->release = nullptr;
  }
  EXPECT_STREQ(schema.name, "value");
  EXPECT_GE(static_cast<const std::int64_t*>(column.buffers[1])[3], 0);
  schema.release(&schema);
  column.release(&column);
  EXPECT_EQ(schema.release, nullptr);
  EXPECT_EQ(column.release, nullptr);
}

TEST(CArrow, RefusesWhatItHasNot) {
  ArrowSchema schema{};
  ArrowArray array{};
  Element half{{"x", Tensor::of<std::int32_t>({1}, {1})},
               {"h", Tensor::allocate(DType::bf16, {1})}};
  half.valid_rows = 1;
  const ElementPtr batch = element_of(std::move(half));
  EXPECT_EQ(penstock_element_arrow(batch.get(), &schema, &array), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_THAT(penstock_error(), testing::HasSubstr("bf16"));
  EXPECT_EQ(schema.release, nullptr);
  EXPECT_EQ(array.release, nullptr);
  Element ragged{{"x", Tensor::of<std::int32_t>({3}, {1, 2, 3})},
                 {"x_begins", Tensor::of<std::int64_t>({2}, {0, 3})}};
  ragged.valid_rows = 1;
  EXPECT_EQ(penstock_element_arrow(element_of(std::move(ragged)).get(), &schema, &array),
            PENSTOCK_INVALID_ARGUMENT);
  EXPECT_THAT(penstock_error(), testing::HasSubstr("x_begins"));
  const ElementPtr single = element_of(Element{{"x", Tensor::scalar(std::int64_t{1})}});
  EXPECT_EQ(penstock_element_arrow(single.get(), &schema, &array), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_element_arrow(nullptr, &schema, &array), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_element_arrow(batch.get(), nullptr, &array), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_element_arrow(batch.get(), &schema, nullptr), PENSTOCK_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace penstock::test
