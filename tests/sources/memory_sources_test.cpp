// The sources that read no files: range, tensors, from_element, generate.
#include <penstock/sources.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using test::expect_error;
using test::read_indices;
using test::read_source;
using test::ReadOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kLeast = INT64_MIN;
constexpr std::int64_t kMost = INT64_MAX;

std::vector<std::int64_t> numbers_of(const SourcePtr& source) {
  std::vector<std::int64_t> numbers;
  for (const ReadOutcome& outcome : read_source(*source))
    numbers.push_back(std::stoll(outcome.text()));
  return numbers;
}

TEST(Range, CountsUpAndDown) {
  struct Case {
    std::int64_t start, stop, step;
    std::vector<std::int64_t> values;
  };
  const Case cases[] = {{0, 5, 1, {0, 1, 2, 3, 4}},
                        {2, 9, 3, {2, 5, 8}},
                        {2, 8, 3, {2, 5}},
                        {0, 1, 7, {0}},
                        {5, 0, -2, {5, 3, 1}},
                        {5, 1, -2, {5, 3}},
                        {0, 0, 1, {}},
                        {0, -3, 1, {}},
                        {0, 3, -1, {}},
                        {-2, 3, 2, {-2, 0, 2}},
                        {kMost - 2, kMost, 1, {kMost - 2, kMost - 1}},
                        {kLeast, kMost, kMost, {kLeast, -1, kMost - 1}},
                        {kMost, kLeast, kLeast, {kMost, -1}},
                        {kLeast + 1, kLeast, -1, {kLeast + 1}}};
  for (const Case& c : cases) {
    EXPECT_EQ(numbers_of(make_range_source(c.start, c.stop, c.step)), c.values)
        << c.start << " " << c.stop << " " << c.step;
  }
  EXPECT_EQ(make_range_source(kLeast, kMost, 1)->size(), UINT64_MAX);
  expect_error(ErrorCode::invalid_argument, "step of 0", [] { make_range_source(0, 1, 0); });
}

TEST(Range, WritesIntoTheRow) {
  const SourcePtr source = make_range_source(10, 20, 1);
  std::vector<std::int64_t> slot(3, -1);
  std::byte* const bases[] = {reinterpret_cast<std::byte*>(slot.data())};
  const std::size_t strides[] = {sizeof(std::int64_t)};
  std::vector<ReadItem> items(3);
  for (std::size_t i = 0; i < 3; ++i) {
    items[i].index = 4 - i;
    items[i].row = Row(bases, strides, i);
  }
  test::HeapContext context;
  source->read(items, context);
  EXPECT_THAT(slot, ElementsAre(14, 13, 12));
  EXPECT_EQ(items[1].element["value"].item<std::int64_t>(), 13);
  EXPECT_EQ(context.allocations, 0U);
}

TEST(Range, Describes) {
  Description description;
  const SourcePtr source = make_range_source(1, 9, 2);
  source->describe(description);
  EXPECT_EQ(source->name() + " " + description.to_string(), "range start=1, stop=9, step=2");
  EXPECT_EQ(source->spec().to_string(), "{value: i64 []}");
}

Element table() {
  const std::string_view words[] = {"one", "two", "three"};
  return {{"x", Tensor::of<std::int64_t>({3}, {1, 2, 3})},
          {"m", Tensor::of<float>({3, 2, 4}, std::vector<float>(24, 0.5F))},
          {"word", Tensor::of_bytes(words)}};
}

TEST(Tensors, ViewsOfRows) {
  const Element columns = table();
  const SourcePtr source = make_tensors_source(columns);
  EXPECT_EQ(source->spec().to_string(), "{x: i64 [], m: f32 [2,4], word: bytes []}");
  EXPECT_EQ(source->size(), 3U);
  std::vector<ReadItem> items(1);
  items[0].index = 2;
  test::HeapContext context;
  source->read(items, context);
  EXPECT_EQ(items[0].element["x"].item<std::int64_t>(), 3);
  EXPECT_EQ(items[0].element["word"].bytes_at(), "three");
  EXPECT_EQ(items[0].element["m"].data(), columns["m"].data() + 2 * 8 * sizeof(float));
  EXPECT_EQ(context.allocations, 0U);
}

TEST(Tensors, Fingerprint) {
  const auto described = [](const Element& columns) {
    Description description;
    make_tensors_source(columns)->describe(description);
    return description.to_string();
  };
  Element other = table();
  other["x"] = Tensor::of<std::int64_t>({3}, {1, 2, 4});
  EXPECT_EQ(described(table()), described(table()));
  EXPECT_NE(described(table()), described(other));
  other = table();
  const std::string_view words[] = {"onet", "wo", "three"};
  other["word"] = Tensor::of_bytes(words);
  EXPECT_NE(described(table()), described(other));
}

TEST(Tensors, Rejects) {
  expect_error(ErrorCode::invalid_argument, "no component", [] { make_tensors_source({}); });
  expect_error(ErrorCode::invalid_argument, "'s' is a scalar", [] {
    make_tensors_source({{"s", Tensor::scalar(1)}});
  });
  expect_error(ErrorCode::invalid_argument, "'b' has 2 rows, 'a' has 3", [] {
    make_tensors_source(
        {{"a", Tensor::of<int>({3}, {1, 2, 3})}, {"b", Tensor::of<int>({2}, {1, 2})}});
  });
  EXPECT_EQ(make_tensors_source({{"a", Tensor::allocate(DType::u8, {0, 4})}})->size(), 0U);
}

TEST(FromElement, IsOneRecord) {
  Element element = {{"x", Tensor::of<int>({2}, {1, 2})}};
  const SourcePtr source = make_element_source(element);
  EXPECT_EQ(source->size(), 1U);
  EXPECT_EQ(source->spec().to_string(), "{x: i32 [2]}");
  EXPECT_EQ(read_source(*source).size(), 1U);
  expect_error(ErrorCode::invalid_argument, "no components", [] { make_element_source({}); });
}

const Spec& numbers_spec() {
  static const Spec spec({{"x", DType::i64, {}}});
  return spec;
}

std::function<Generator()> counting(std::int64_t count) {
  return [count] {
    return [count, next = std::int64_t{0}](Element& out) mutable {
      if (next == count) return false;
      out.set("x", Tensor::scalar(next++));
      return true;
    };
  };
}

TEST(Generate, FreshStreams) {
  const SourcePtr source = make_generate_source(counting(3), numbers_spec(), "mine");
  EXPECT_EQ(source->name(), "mine");
  EXPECT_EQ(source->size(), std::nullopt);
  EXPECT_EQ(source->stream_cardinality(), -2);
  EXPECT_THAT(numbers_of(source), ElementsAre(0, 1, 2));
  EXPECT_THAT(numbers_of(source), ElementsAre(0, 1, 2));
}

TEST(Generate, FailuresOfRecords) {
  const auto make = [] {
    return [next = 0](Element& out) mutable {
      const int number = next++;
      if (number == 1) throw std::runtime_error("no luck");
      if (number == 2) {
        out.set("x", Tensor::scalar(1.0F));
      } else {
        out.set("x", Tensor::scalar<std::int64_t>(number));
      }
      return number < 4;
    };
  };
  const SourcePtr source = make_generate_source(make, numbers_spec(), "mine");
  const std::vector<ReadOutcome> outcomes = read_source(*source);
  ASSERT_EQ(outcomes.size(), 4U);
  EXPECT_EQ(outcomes[0].text(), "0");
  EXPECT_EQ(outcomes[1].error->cause(), "no luck");
  EXPECT_THAT(outcomes[2].error->cause(), HasSubstr("'mine'"));
  EXPECT_THAT(outcomes[2].error->cause(), HasSubstr("expected i64 [], got f32 []"));
  EXPECT_EQ(outcomes[3].text(), "3");
}

TEST(Generate, Rejects) {
  expect_error(ErrorCode::invalid_argument, "'g'",
               [] { make_generate_source(nullptr, numbers_spec(), "g"); });
  const SourcePtr source = make_generate_source([] { return Generator(); }, numbers_spec(), "g");
  expect_error(ErrorCode::user, "'g'", [&] { (void)source->stream(); });
}

}  // namespace
}  // namespace penstock
