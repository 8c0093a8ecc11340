// Misuse by the caller, or by a callable, ends with a message.
#include <pthread.h>

#include <array>
#include <climits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/penstock.h>

#include "tests/support/errors.h"
#include "tests/support/numbers.h"

namespace penstock {
namespace misuse_test {

using test::expect_error;
using test::numbers;
using testing::HasSubstr;

bool is_element(const Next& next) {
  return !next.is_end() && !next.is_error();
}

TEST(MovedFrom, Iterator) {
  Iterator first = numbers(10).iterate();
  const Iterator second = std::move(first);
  for (int i = 0; i < 100; ++i) {
    const Next next = first.next();  // NOLINT(bugprone-use-after-move)
    ASSERT_TRUE(next.is_error());
    EXPECT_EQ(next.error().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(next.error().what(), HasSubstr("the iterator was moved from"));
  }
  EXPECT_FALSE(first.next_epoch());
  EXPECT_EQ(first.epoch(), 0U);
  first.cancel();
  expect_error(ErrorCode::invalid_argument, "moved from", [&] { first.stats(); });
  expect_error(ErrorCode::invalid_argument, "moved from", [&] { first.save(); });
  expect_error(ErrorCode::invalid_argument, "moved from", [&] {
    for (const Element& element : first) EXPECT_TRUE(element.has("x"));
  });
  first = numbers(3).iterate();
  EXPECT_TRUE(is_element(first.next()));
}

TEST(ThreadEnds, OfACallableEndsTheProcessWithTheStage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto leave = [](Element element) {
    pthread_exit(nullptr);
    return element;
  };
  EXPECT_DEATH(numbers(3).map(leave, {.name = "my_stage"}).iterate({.threads = 1}).next(),
               "the callable of stage my_stage ended its thread");
}

TEST(Enumerate, BeyondTheLargestNumber) {
  const std::array<std::pair<std::int64_t, int>, 4> cases{
      {{INT64_MAX, 1}, {INT64_MAX - 3, 4}, {INT64_MAX - 9, 10}, {-5, 10}}};
  for (const auto& [start, good] : cases) {
    Iterator run = numbers(10).enumerate(start).iterate();
    int got = 0;
    for (int i = 0; i < 10; ++i) {
      Next next = run.next();
      if (i < good) {
        ASSERT_TRUE(is_element(next)) << start << i;
        EXPECT_EQ(next.value()["index"].item<std::int64_t>(), start + i);
        ++got;
      } else {
        ASSERT_TRUE(next.is_error()) << start << i;
        EXPECT_EQ(next.error().code(), ErrorCode::out_of_range);
        EXPECT_THAT(next.error().what(), HasSubstr("the number is beyond 2^63 - 1"));
      }
    }
    EXPECT_EQ(got, good);
  }
}

TEST(Unique, WithoutRoomTellsHowManyItHasSeen) {
  Iterator run = numbers(100'000).unique().iterate({.memory_bytes = 256 << 10});
  Next next = run.next();
  std::uint64_t seen = 0;
  for (; is_element(next); next = run.next()) ++seen;
  ASSERT_TRUE(next.is_error());
  EXPECT_EQ(next.error().code(), ErrorCode::resource_exhausted);
  EXPECT_THAT(next.error().what(),
              HasSubstr("has seen " + std::to_string(seen) +
                        " different elements, and a stage may keep three quarters of the memory "
                        "budget of 262144 bytes"));
}

}  // namespace misuse_test
}  // namespace penstock
