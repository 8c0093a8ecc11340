#include "cluster/clock_offset.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace penstock::cluster {
namespace {

TEST(ClockEstimate, KnowsNothingBeforeItHasHeard) {
  const ClockEstimate none;
  EXPECT_EQ(none.at(5).within_ns, -1);
}

TEST(ClockEstimate, BelievesTheAnswerThatTookLeast) {
  ClockEstimate estimate;
  estimate.add(1000, 3000, 502'000);
  EXPECT_EQ(estimate.at(3000).ahead_ns, 500'000);
  EXPECT_EQ(estimate.at(3000).within_ns, 1000);
  estimate.add(4000, 9000, 506'000);  // took longer
  EXPECT_EQ(estimate.at(9000).within_ns, 1000);
  estimate.add(10'000, 10'200, 510'150);
  EXPECT_EQ(estimate.at(10'200).ahead_ns, 500'050);
  EXPECT_EQ(estimate.at(10'200).within_ns, 100);
}

TEST(ClockEstimate, BelievesNewsOnceClocksMayHaveDriftedApart) {
  ClockEstimate estimate;
  estimate.add(0, 200, 100);
  constexpr std::int64_t kMinute = 60'000'000'000;
  EXPECT_NEAR(static_cast<double>(estimate.at(kMinute).within_ns), 6'000'100, 2);
  estimate.add(kMinute, kMinute + 1'000'000, kMinute + 3'500'000);
  EXPECT_EQ(estimate.at(kMinute + 1'000'000).ahead_ns, 3'000'000);
  EXPECT_EQ(estimate.at(kMinute + 1'000'000).within_ns, 500'000);
}

// Whatever either way takes, the truth is within what it says: also of a clock that drifts.
TEST(ClockEstimate, IsAsNearAsItSays) {
  std::mt19937_64 random(7);
  const auto whole = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int run = 0; run < 200; ++run) {
    const std::int64_t apart = whole(-1'000'000'000'000, 1'000'000'000'000);
    const std::int64_t drift = whole(-50, 50);  // millionths
    const auto there = [&](std::int64_t here) { return here + apart + here / 1'000'000 * drift; };
    ClockEstimate estimate;
    std::int64_t now = 0;
    for (int asked = 0; asked < 50; ++asked) {
      now += whole(1'000'000, 2'000'000'000);
      const std::int64_t out = whole(20'000, 5'000'000);
      const std::int64_t back = whole(20'000, 5'000'000);
      estimate.add(now, now + out + back, there(now + out));
      now += out + back;
      const ClockOffset offset = estimate.at(now);
      EXPECT_LE(std::abs(there(now) - now - offset.ahead_ns), offset.within_ns + 2);
    }
  }
}

}  // namespace
}  // namespace penstock::cluster
