// Groups are made in chunks that share their work items: nothing of one may show in the next.
#include <cstdint>

#include <gtest/gtest.h>

#include <penstock/penstock.h>

namespace penstock {
namespace {

class Chunks : public ::testing::TestWithParam<int> {};

TEST_P(Chunks, RowsOfAnEarlierChunk) {
  constexpr std::int64_t kCount = 20000;
  const Dataset squares = range(kCount)
                              .map([](Element element) {
                                const auto value = element["value"].item<std::int64_t>();
                                element["value"] = Tensor::scalar(value * value);
                                return element;
                              })
                              .batch(32);
  Iterator iterator = squares.iterate({.threads = GetParam(), .memory_bytes = 16 << 20});
  std::int64_t at = 0;
  for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
    for (const std::int64_t value : (*next)["value"].values<std::int64_t>()) {
      ASSERT_EQ(value, at * at) << "at " << at;
      ++at;
    }
  }
  EXPECT_EQ(at, kCount);
}

INSTANTIATE_TEST_SUITE_P(Threads, Chunks, ::testing::Values(1, 2, 8));

}  // namespace
}  // namespace penstock
