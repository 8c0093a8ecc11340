#include <penstock/element.h>

#include <thread>

#include "tests/support/errors.h"

namespace penstock {
namespace {

using test::expect_error;

Tensor number(int value) {
  return Tensor::scalar<std::int64_t>(value);
}
std::int64_t value(const Tensor& tensor) {
  return tensor.item<std::int64_t>();
}

std::string name(int i) {
  std::string text = "c";
  return text += std::to_string(i);
}

Element numbered(int count) {
  Element element;
  for (int i = 0; i < count; ++i) element.set(name(i), number(i));
  return element;
}

void expect_numbered(const Element& element, int count) {
  ASSERT_EQ(element.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(element.name(static_cast<std::size_t>(i)), name(i));
    EXPECT_EQ(value(element[name(i)]), i);
  }
}

TEST(Names, EqualLists) {
  const std::vector<std::string> a = {"x", "y"};
  const std::vector<std::string> b = {"y", "x"};
  EXPECT_EQ(Names::intern(a), Names::intern(std::vector<std::string>{"x", "y"}));
  EXPECT_NE(Names::intern(a), Names::intern(b));
  EXPECT_NE(Names::intern(a), Names::intern(std::vector<std::string>{"xy"}));
  EXPECT_EQ(Names::intern(a)->find("y"), 1);
  EXPECT_EQ(Names::intern(a)->find("z"), -1);
  EXPECT_EQ(Names::intern({}), nullptr);
}

TEST(Names, InterningByManyThreads) {
  std::vector<const Names*> seen(8);
  {
    std::vector<std::jthread> threads;
    for (auto& names : seen) {
      threads.emplace_back([&names] {
        for (int i = 0; i < 100; ++i) {
          names = Names::intern(std::vector<std::string>{"thread", std::to_string(i)});
        }
      });
    }
  }
  for (const Names* names : seen) EXPECT_EQ(names, seen[0]);
}

// Four components fit inside the object, five do not.
class Counts : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Counts, testing::Values(0, 1, 3, 4, 5, 12));

TEST_P(Counts, CopiesAndMoves) {
  const int count = GetParam();
  Element element = numbered(count);
  element.valid_rows = 3;
  Element copy = element;
  expect_numbered(copy, count);
  EXPECT_EQ(copy.valid_rows, 3);
  const Element moved = std::move(element);
  expect_numbered(moved, count);
  EXPECT_EQ(moved.valid_rows, 3);
  EXPECT_TRUE(element.empty());
  EXPECT_EQ(element.valid_rows, -1);
  for (const int before : {0, 2, 6}) {
    Element target = numbered(before);
    target = moved;
    expect_numbered(target, count);
    Element other = numbered(before);
    other = std::move(target);
    expect_numbered(other, count);
  }
  copy = *&copy;
  expect_numbered(copy, count);
  copy = std::move(*&copy);
  expect_numbered(copy, count);
}

TEST_P(Counts, Reset) {
  const int count = GetParam();
  for (const int next : {0, 1, 4, 5, 6, 12, 13}) {
    Element element = numbered(count);
    const Element other = numbered(next);
    element.valid_rows = 9;
    element.reset(other.names());
    ASSERT_EQ(element.size(), static_cast<std::size_t>(next));
    EXPECT_EQ(element.valid_rows, -1);
    for (int i = 0; i < next; ++i) EXPECT_EQ(element[static_cast<std::size_t>(i)].volume(), 0);
    for (int i = 0; i < next; ++i) element[static_cast<std::size_t>(i)] = number(i);
    expect_numbered(element, next);
    element.reset(numbered(count).names());
    EXPECT_EQ(element.size(), static_cast<std::size_t>(count));
  }
}

TEST_P(Counts, LetsGoOfMemory) {
  const BufferPtr buffer = allocate_buffer(64);
  const Tensor shared(DType::u8, Shape({64}), buffer->data(), buffer);
  Element element = numbered(GetParam());
  element.set("shared", shared);
  Element moved = std::move(element);
  EXPECT_FALSE(buffer->unique());
  moved.clear();
  {
    const Tensor again = shared;
    moved.set("shared", again);
    Element third = moved;
  }
  moved = Element();
  // `buffer` and `shared` are left.
  buffer->release();
  EXPECT_TRUE(buffer->unique());
  buffer->add_ref();
}

TEST_P(Counts, AppendInPlace) {
  const int count = GetParam();
  Element element = numbered(count);
  const Names* const names = element.names();
  if (names == nullptr) return;
  const BufferPtr buffer = allocate_buffer(64);
  for (int pass = 0; pass < 2; ++pass) {  // the second in the first one's memory
    element.start(names);
    EXPECT_EQ(element.size(), 0U);
    for (int i = 0; i < count; ++i) {
      const Tensor& made = element.append(DType::u8, Shape({64}), buffer->data(), buffer);
      EXPECT_EQ(made.data(), buffer->data());
    }
    EXPECT_EQ(element.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(element.names(), names);
  }
  Element other = std::move(element);
  EXPECT_EQ(other[count - 1].owner(), buffer);
  other.start(names);
  for (int i = 0; i < count; ++i) other.append();
  EXPECT_TRUE(buffer->unique());
}

TEST(Element, Names) {
  Element element = {{"image", number(1)}, {"label", number(2)}};
  EXPECT_TRUE(element.has("label"));
  EXPECT_FALSE(element.has("key"));
  EXPECT_EQ(value(element["label"]), 2);
  element["label"] = number(3);
  EXPECT_EQ(value(std::as_const(element)[1]), 3);
  expect_error(ErrorCode::not_found, "image, label", [&] { (void)element["key"]; });
  expect_error(ErrorCode::not_found, "none", [] { (void)Element()["key"]; });
  expect_error(ErrorCode::invalid_argument, "'a'", [] {
    Element({{"a", Tensor()}, {"a", Tensor()}});
  });
  expect_error(ErrorCode::invalid_argument, "no name", [] { Element({{"", Tensor()}}); });
}

TEST(Element, Set) {
  Element element = {{"a", number(1)}};
  element.valid_rows = 5;
  element.set("a", number(2));
  EXPECT_EQ(element.size(), 1U);
  element.set("b", number(3));
  EXPECT_EQ(value(element["a"]), 2);
  EXPECT_EQ(value(element["b"]), 3);
  EXPECT_EQ(element.valid_rows, 5);
  EXPECT_EQ(element.names(), Names::intern(std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace penstock
