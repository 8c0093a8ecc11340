// F41: the time of day may jump as it likes. This program answers whoever asks for it with jumps of
// years, and counts.
#include <atomic>
#include <ctime>

#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <penstock/sources.h>

#include "tests/support/figure.h"
#include "tests/support/numbers.h"

namespace {

std::atomic<bool> jumping{false};
std::atomic<unsigned> asked{0};

long jump() {
  static constexpr long kTimes[] = {0, 4'102'444'800, 951'782'400, 1'900'000'000, -86'400};
  return kTimes[asked.fetch_add(1) % 5];
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto done = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (jumping && clock == CLOCK_REALTIME) time->tv_sec = jump();
  return done;
}
extern "C" time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

namespace penstock {
namespace {

TEST(Clock, JumpsOfTheTimeOfDay) {
  const Dataset dataset =
      test::numbers(3000)
          .shuffle({.buffer = 100})
          .filter([](const Element& e) { return e["x"].item<std::int64_t>() % 7 != 0; })
          .map([](Element e) { return e; }, {.blocking = true})
          .batch(16);
  const RunOptions options{.epochs = 2, .threads = 2, .memory_bytes = 200'000};
  const std::string expected = test::run(dataset, options);
  jumping = true;
  EXPECT_LT(std::abs(::time(nullptr)), 5'000'000'000);  // the jumps are there
  const unsigned mine = asked;
  EXPECT_GT(mine, 0U);
  const std::string got = test::run(dataset, options);
  // Waits with a deadline and their end, too.
  Iterator iterator = dataset.iterate({.threads = 2, .close_deadline_ms = 50});
  EXPECT_TRUE(iterator.next().has_value());
  iterator.cancel();
  EXPECT_TRUE(iterator.next().is_error());
  jumping = false;
  EXPECT_EQ(got, expected);
  test::figure(
      "F41",
      "a run while the time of day jumps by years asks for it %u times: the digest is the same",
      asked.load() - mine);
}

}  // namespace
}  // namespace penstock
