// Datasets picked and parted by position.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/support/errors.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::epochs_of;
using test::expect_error;
using test::iota;
using test::numbers;
using test::stream;
using test::values;

using Order = std::vector<std::int64_t>;

TEST(Select, PicksByPosition) {
  const Dataset input = numbers({10, 11, 12, 13});
  test::expect_vectors({
      {"in the order given", input.select({3, 0, 0, 2}), "13 10 10 12"},
      {"nothing", input.select({}), ""},
      {"of a shard", input.shard(2, 1).select({1}), "13"},
      {"of a select", input.select({3, 2, 1}).select({2, 0}), "11 13"},
      {"of a map", test::failing_at(input, 12).select({2, 3}), "E 13"},
      {"of a zip", input.enumerate().select({3, 1}), "(13, 3) (11, 1)"},
  });
  EXPECT_EQ(input.select({1, 1, 1, 1, 1}).cardinality(), 5);
  expect_error(ErrorCode::invalid_argument, "index 4 is past", [&] { (void)input.select({0, 4}); });
  expect_error(ErrorCode::invalid_argument, "no index", [] { (void)stream({1}).select({0}); });
}

TEST(SplitAt, MakesTwoDisjointParts) {
  for (const std::int64_t n : {0, 1, 2, 9, 10, 11, 5000}) {
    for (const double share : {0.0, 0.1, 0.5, 0.8, 1.0}) {
      const auto [first, second] = numbers(n).split_at(share, 42);
      Order all = values(first);
      EXPECT_EQ(static_cast<std::int64_t>(all.size()),
                std::llround(share * static_cast<double>(n)));
      EXPECT_EQ(first.cardinality(), static_cast<std::int64_t>(all.size()));
      const Order rest = values(second);
      EXPECT_EQ(second.cardinality(), static_cast<std::int64_t>(rest.size()));
      all.insert(all.end(), rest.begin(), rest.end());
      std::sort(all.begin(), all.end());
      EXPECT_EQ(all, iota(n)) << share;
    }
  }
}

TEST(SplitAt, IsTheSameInEveryRunAndEpoch) {
  const auto [first, second] = numbers(100).split_at(0.5, 1);
  const std::vector<std::string> epochs = epochs_of(first, {.seed = 1, .epochs = 3});
  EXPECT_EQ(std::set<std::string>(epochs.begin(), epochs.end()).size(), 1U);
  EXPECT_EQ(epochs_of(first, {.seed = 2, .epochs = 3}), epochs);
  EXPECT_EQ(values(first.concatenate(second)).size(), 100U);
  EXPECT_NE(values(numbers(100).split_at(0.5, 2).first), values(first));
  // Both parts can be shuffled again.
  EXPECT_EQ(values(first.shuffle()).size(), 50U);
}

TEST(SplitAt, PartsOfAFailingInput) {
  const Dataset input = test::failing_at(numbers(20), 3);
  const auto [first, second] = input.split_at(0.5, 7);
  const auto good = [](const Dataset& dataset) {
    return values(dataset, {.on_error = OnError::skip});
  };
  Order all = good(first);
  const Order rest = good(second);
  all.insert(all.end(), rest.begin(), rest.end());
  std::sort(all.begin(), all.end());
  Order expected = iota(20);
  expected.erase(expected.begin() + 3);
  EXPECT_EQ(all, expected);
  EXPECT_EQ(test::errors(first).size() + test::errors(second).size(), 1U);
  (void)first.shuffle();  // still indexed
}

TEST(SplitAt, RefusesWrongArguments) {
  for (const double share : {-0.1, 1.1, std::nan("")}) {
    expect_error(ErrorCode::invalid_argument, "share",
                 [&] { (void)numbers(3).split_at(share, 1); });
  }
  expect_error(ErrorCode::invalid_argument, "no index", [] {
    (void)stream({1, 2}).split_at(0.5, 1);
  });
}

}  // namespace
}  // namespace penstock
