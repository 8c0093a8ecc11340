// When an evaluator evaluates which checkpoint, as lists of calls.
#include "towers/evaluate/follow_plan.h"

#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::towers {
namespace {

using What = FollowPlan::What;
using Kept = FollowPlan::Kept;

FollowPlan::Time at(double seconds) {
  return FollowPlan::Time() + std::chrono::duration_cast<FollowPlan::Time::duration>(
                                  std::chrono::duration<double>(1000 + seconds));
}

/// What lies there at a time, and what is to be done then.
struct Moment {
  double at_s = 0;
  FollowPlan::Seen seen{};
  What what = What::wait;
  std::size_t which = 0;
};

struct FollowCase {
  const char* name;
  FollowOptions options{};
  std::optional<double> last_began_s{};
  std::vector<Moment> moments{};
  friend void PrintTo(const FollowCase& c, std::ostream* out) { *out << c.name; }
};

class FollowPlans : public testing::TestWithParam<FollowCase> {};

TEST_P(FollowPlans, SayWhatIsNext) {
  const FollowCase& c = GetParam();
  std::optional<FollowPlan::Time> began;
  if (c.last_began_s) began = at(*c.last_began_s);
  FollowPlan plan(c.options, at(0), began);
  for (const Moment& moment : c.moments) {
    const FollowPlan::Next next = plan.next(moment.seen, at(moment.at_s));
    EXPECT_EQ(next.what, moment.what) << "at " << moment.at_s;
    if (next.what != What::evaluate) continue;
    EXPECT_EQ(next.which, moment.which) << "at " << moment.at_s;
    plan.began(at(moment.at_s));
  }
}

const std::vector<Kept> kOne{{10, false}};
const std::vector<Kept> kTwo{{10, false}, {20, false}};
const std::vector<Kept> kFirstDone{{10, true}, {20, false}};
const std::vector<Kept> kSecondDone{{10, false}, {20, true}};
const std::vector<Kept> kBothDone{{10, true}, {20, true}};

const std::vector<FollowCase> kFollowCases{
    {"EachInOrderWithoutAThrottle",
     {},
     {},
     {{0, {}, What::wait},
      {1, {.kept = kOne}, What::evaluate, 0},
      {2, {.kept = kTwo}, What::evaluate, 0},
      {3, {.kept = kFirstDone}, What::evaluate, 1},
      {4, {.kept = kBothDone}, What::wait}}},
    {"TheNewestWithAThrottle",
     {.throttle_s = 10},
     {},
     {{0, {.kept = kTwo}, What::evaluate, 1},
      {1, {.kept = kSecondDone}, What::wait},
      {2, {.kept = {{20, true}, {30, false}}}, What::wait},
      {9.9, {.kept = {{30, false}, {40, false}}}, What::wait},
      {10, {.kept = {{30, false}, {40, false}}}, What::evaluate, 1},
      {30, {.kept = {{30, false}, {40, true}}}, What::wait}}},
    {"TheThrottleHoldsAcrossRestarts",
     {.throttle_s = 60},
     -20,
     {{0, {.kept = kFirstDone}, What::wait},
      {39, {.kept = kFirstDone}, What::wait},
      {40, {.kept = kFirstDone}, What::evaluate, 1}}},
    {"TheStartIsDelayed",
     {.start_delay_s = 5},
     {},
     {{0, {.kept = kOne}, What::wait},
      {4.9, {.kept = kOne}, What::wait},
      {5, {.kept = kOne}, What::evaluate, 0}}},
    {"TheLastIsHeldBackByNothing",
     {.start_delay_s = 100, .throttle_s = 100},
     -1,
     {{0, {.kept = kFirstDone}, What::wait},
      {1, {.kept = kFirstDone, .last_step = 20}, What::evaluate, 1},
      {2, {.kept = kBothDone, .last_step = 20, .last_evaluated = true}, What::end}}},
    {"AllThatAreKeptBeforeTheEnd",
     {},
     {},
     {{0, {.kept = kTwo, .last_step = 20}, What::evaluate, 0},
      {1, {.kept = kFirstDone, .last_step = 20}, What::evaluate, 1},
      {2, {.kept = kBothDone, .last_step = 20, .last_evaluated = true}, What::end}}},
    {"NothingWasKeptOfTheEnd",
     {.timeout_s = 50},
     {},
     {{0, {.last_step = 20, .last_evaluated = true}, What::end}}},
    {"WaitsForALastThatIsNotThereAndGivesUp",
     {.timeout_s = 50},
     {},
     {{0, {.kept = {{10, true}}, .last_step = 20}, What::wait},
      {49, {.kept = {{10, true}}, .last_step = 20}, What::wait},
      {50, {.kept = {{10, true}}, .last_step = 20}, What::give_up}}},
    {"GivesUpOnlyWhereNobodyIsSeen",
     {.timeout_s = 50},
     {},
     {{40, {.trained_into = true}, What::wait},
      {80, {}, What::wait},
      {85, {.kept = {{10, true}}}, What::wait},
      {134, {.kept = {{10, true}}}, What::wait},
      {136, {.kept = {{10, true}}}, What::give_up}}},
    {"WhatWaitsForTheThrottleIsNotGivenUp",
     {.throttle_s = 100, .timeout_s = 10},
     0,
     {{0, {.kept = kFirstDone}, What::wait},
      {99, {.kept = kFirstDone}, What::wait},
      {100, {.kept = kFirstDone}, What::evaluate, 1},
      {111, {.kept = kBothDone}, What::give_up}}},
};

INSTANTIATE_TEST_SUITE_P(Table, FollowPlans, testing::ValuesIn(kFollowCases),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace penstock::towers
