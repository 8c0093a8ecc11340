#include "tools/penstock/run/determinism.h"

#include <atomic>

#include <gtest/gtest.h>

#include <penstock/sources.h>

namespace penstock::tool {
namespace {

/// Changes `component` of one element in the run that comes second.
Dataset fickle(const Dataset& input, const std::string& component, std::int64_t at) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  return input.map(
      [=](Element element) {
        if (element["value"].item<std::int64_t>() == at && calls->fetch_add(1) % 2 == 1)
          element.set(component, Tensor::scalar<std::int64_t>(-1));
        return element;
      },
      {.name = "fickle"});
}

TEST(Determinism, NamesTheFirstDifference) {
  // Of one epoch: the next would be begun early, before the other run or after it.
  const RunOptions one{.seed = 1, .epochs = 1, .threads = 1};
  const RunOptions two{.seed = 1, .epochs = 1, .threads = 3};
  const Dataset source = range(100);
  const Dataset counted = source.enumerate();
  const Dataset mapped = fickle(counted, "index", 42);
  const Dataset batched = mapped.batch(8);
  const DeterminismResult result = check_determinism(
      {{"range[0]", source}, {"enumerate[1]", counted}, {"map[2]", mapped}, {"batch[3]", batched}},
      one, two, 0);
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first->epoch, 0U);
  EXPECT_EQ(result.first->batch, 5U);
  EXPECT_EQ(result.first->component, "index");
  EXPECT_EQ(result.first->stage, "map[2]");

  const DeterminismResult same = check_determinism(
      {{"range[0]", source}, {"shuffle[1]", source.shuffle().batch(7)}}, one, two, 0);
  EXPECT_FALSE(same.first);
  EXPECT_EQ(same.batches, 15U);
  EXPECT_EQ(same.elements, 100U);
}

TEST(Determinism, SeesErrorsAndEnds) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  const Dataset failing = range(10).map([=](Element element) {
    if (element["value"].item<std::int64_t>() == 3 && calls->fetch_add(1) % 2 == 0)
      throw std::runtime_error("once");
    return element;
  });
  const RunOptions options{.threads = 1};
  const auto first = check_determinism({{"map[1]", failing}}, options, options, 0).first;
  ASSERT_TRUE(first);
  EXPECT_EQ(first->component, "error");
  EXPECT_EQ(first->batch, 3U);
  auto looks = std::make_shared<std::atomic<int>>(0);
  const Dataset shorter = range(10).filter([looks](const Element& element) {
    return element["value"].item<std::int64_t>() != 9 || looks->fetch_add(1) % 2 == 0;
  });
  const auto end = check_determinism({{"filter[1]", shorter}}, options, options, 0).first;
  ASSERT_TRUE(end);
  EXPECT_EQ(end->component, "end");
  EXPECT_EQ(end->batch, 9U);
}

}  // namespace
}  // namespace penstock::tool
