// The rules of one parameter server, async, on a clock that the test moves.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/error.h>

#include "tests/support/errors.h"
#include "tests/support/time_limit.h"
#include "tests/towers/servers/small_run.h"
#include "towers/servers/division.h"

namespace penstock::towers {
namespace {

using penstock::test::expect_error;
using penstock::test::TimeLimit;
using std::chrono::milliseconds;
using test::open_run;
using test::small_beginning;
using test::SmallPush;
using test::trainee;
using test::Values;
using test::values_of;
using testing::ElementsAre;

TEST(Division, LargestFirst) {
  struct Case {
    std::vector<std::uint64_t> bytes;
    int servers;
    std::vector<int> expected;
  };
  const std::vector<Case> cases{{{}, 3, {}},
                                {{4, 9, 5, 1}, 2, {1, 0, 1, 0}},
                                {{4, 9, 5, 1}, 1, {0, 0, 0, 0}},
                                {{1, 1, 1, 1}, 2, {0, 1, 0, 1}},
                                {{8, 8, 8}, 5, {0, 1, 2}},
                                {{0, 0, 7}, 2, {1, 1, 0}},
                                {{100, 1, 1, 1}, 2, {0, 1, 1, 1}}};
  for (const Case& one : cases) EXPECT_EQ(divide_by_bytes(one.bytes, one.servers), one.expected);
}

TEST(AsyncServer, AppliesEachPushAtOnceAndGivesWhatChanged) {
  ShardServer server;
  open_run(server, small_beginning("async", 2));
  SmallPush first(0, 1, 0, 0.5F);
  first->have = 0;
  Values given;
  Pushed pushed = server.push(trainee(0), *first, given);
  EXPECT_EQ(pushed.verdict, PushVerdict::applied);
  EXPECT_EQ(pushed.step, 1U);
  EXPECT_THAT(given.given.at(0), ElementsAre(0.5F, 0.5F));
  // Only variable 1 from here on.
  SmallPush second(1, 1, 0, 0.25F);
  second->pieces.erase(second->pieces.begin());
  second->have = 1;
  Values later;
  pushed = server.push(trainee(1), *second, later);
  EXPECT_EQ(pushed.staleness, 1U);
  EXPECT_EQ(later.given.count(0), 0U) << "it has not changed since";
  EXPECT_THAT(later.given.at(1), ElementsAre(0.25F));
  Values pulled;
  EXPECT_EQ(server.pull(trainee(0), 1, pulled), 2U);
  EXPECT_EQ(pulled.given.size(), 1U);
  EXPECT_EQ(server.figures("run").staleness, (std::vector<std::uint64_t>{1, 1}));
}

TEST(AsyncServer, RepeatedPush) {
  ShardServer server;
  open_run(server, small_beginning("async", 2));
  for (int again = 0; again < 3; ++again) {
    SmallPush push(0, 1, 0, 0.5F);
    Values given;
    EXPECT_EQ(server.push(trainee(0), *push, given).verdict,
              again == 0 ? PushVerdict::applied : PushVerdict::repeated);
    EXPECT_THAT(given.given.at(0), ElementsAre(0.5F, 0.5F)) << "the answer may have been lost";
  }
  SmallPush third(0, 3, 0, 0.5F);
  Values given;
  expect_error(ErrorCode::invalid_argument, "push 3 of replica 0 came behind push 1",
               [&] { server.push(trainee(0), *third, given); });
  const ServerFigures figures = server.figures("run");
  EXPECT_EQ(figures.applied, 1U);
  EXPECT_EQ(figures.repeated, 2U);
}

TEST(AsyncServer, StaleAndSurplusPushes) {
  struct Step {
    int replica;
    std::uint64_t number, seen;
    PushVerdict verdict;
  };
  Beginning beginning = small_beginning("async", 2);
  beginning.max_staleness = 1;
  beginning.max_steps = 4;
  ShardServer server;
  open_run(server, beginning);
  const std::vector<Step> steps{{0, 1, 0, PushVerdict::applied},  {0, 2, 1, PushVerdict::applied},
                                {1, 1, 0, PushVerdict::dropped},  // two updates were made since
                                {1, 2, 2, PushVerdict::applied},  {0, 3, 2, PushVerdict::applied},
                                {1, 3, 4, PushVerdict::finished}, {1, 3, 4, PushVerdict::finished},
                                {0, 3, 2, PushVerdict::repeated}};
  for (const Step& step : steps) {
    SmallPush push(step.replica, step.number, step.seen, 0.125F);
    Values given;
    EXPECT_EQ(server.push(trainee(step.replica), *push, given).verdict, step.verdict)
        << step.replica << " " << step.number;
  }
  EXPECT_THAT(values_of(server, trainee(0), 1), ElementsAre(0.5F)) << "four of them";
  const ServerFigures figures = server.figures("run");
  EXPECT_EQ(figures.applied, 4U);
  EXPECT_EQ(figures.dropped, 1U);
}

TEST(AsyncServer, PromisesOfServerZero) {
  const TimeLimit limit(60);
  Beginning beginning = small_beginning("async", 2);
  beginning.servers = {"x", "y"};
  beginning.max_steps = 2;
  ShardServer first;
  open_run(first, beginning);
  beginning.server = 1;
  beginning.feeds.clear();
  ShardServer second;
  open_run(second, beginning);
  const auto push_to = [](ShardServer& server, int replica, std::uint64_t number,
                          PushVerdict decided) {
    SmallPush push(replica, number, 0, 0.25F);
    push->decided = decided;
    Values given;
    return server.push(trainee(replica), *push, given).verdict;
  };
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(first.commit(trainee(0), 0, 1, 0, 1).verdict, PushVerdict::applied);
  EXPECT_EQ(first.commit(trainee(1), 1, 1, 0, 1).verdict, PushVerdict::applied);
  // The promised ones come in any order; the other server does what it is told.
  EXPECT_EQ(push_to(second, 1, 1, PushVerdict::applied), PushVerdict::applied);
  EXPECT_EQ(push_to(first, 0, 1, PushVerdict::applied), PushVerdict::applied);
  EXPECT_EQ(push_to(second, 0, 1, PushVerdict::applied), PushVerdict::applied);
  EXPECT_EQ(push_to(first, 1, 1, PushVerdict::applied), PushVerdict::applied);
  EXPECT_EQ(first.commit(trainee(0), 0, 1, 0, 1).verdict, PushVerdict::applied) << "as it was";
  EXPECT_EQ(first.commit(trainee(0), 0, 2, 2, 1).verdict, PushVerdict::finished);
  EXPECT_EQ(values_of(first, trainee(0), 0), values_of(second, trainee(0), 0));
}

TEST(AsyncServer, PromiseToALostProcess) {
  const TimeLimit limit(60);
  test::HandClock clock;
  Beginning beginning = small_beginning("async", 2);
  beginning.servers = {"x", "y"};
  beginning.max_steps = 1;
  ShardServer server({.peer_timeout = milliseconds(1000), .now = clock.reader()});
  open_run(server, beginning);
  EXPECT_EQ(server.commit(trainee(1), 1, 1, 0, 1).verdict, PushVerdict::applied);
  std::jthread waits([&] {
    EXPECT_EQ(server.commit(trainee(0), 0, 1, 0, 1).verdict, PushVerdict::applied)
        << "in the other's place";
  });
  clock.pass(milliseconds(999));
  EXPECT_TRUE(server.beat(trainee(0), {}).ok());
  clock.pass(milliseconds(1));
  server.look();
}

TEST(AsyncServer, VariablesBeyondAllMemory) {
  ShardServer server;
  Beginning beginning = small_beginning("async", 2);
  beginning.variables.push_back({7, "table", {std::int64_t{1} << 50, 2}, true, true});
  expect_error(ErrorCode::resource_exhausted, "variable table and those before it",
               [&] { server.begin(beginning, trainee(0)); });
  open_run(server, small_beginning("async", 2));  // others may begin
}

TEST(AsyncServer, RefusesPiecesThatDoNotFitAndAppliesNoneOfThem) {
  ShardServer server;
  Beginning beginning = small_beginning("async", 2);
  beginning.variables.push_back({7, "table", {4, 2}, true, true});
  open_run(server, beginning);
  const std::vector<float> values(8, 1.0F);
  const std::vector<std::int64_t> falling{2, 1};
  const std::vector<std::int64_t> far{1, 4};
  const std::vector<std::int64_t> good{0, 1};
  struct Case {
    Piece piece;
    std::string says;
  };
  const std::vector<Case> cases{
      {{0, values.data(), 3, nullptr, 0}, "variable a has 2 values, not 3"},
      {{5, values.data(), 2, nullptr, 0}, "variable 5 is not on this server"},
      {{1, values.data(), 1, nullptr, 0}, "variable b is twice"},
      {{0, values.data(), 2, good.data(), 2}, "variable a is pushed whole only"},
      {{7, values.data(), 8, nullptr, 0}, "variable table is pushed by rows only"},
      {{7, values.data(), 4, falling.data(), 2}, "row 1 is out of order"},
      {{7, values.data(), 4, far.data(), 2}, "row 4 is out of order, or there is none"},
      {{7, values.data(), 3, good.data(), 2}, "2 rows of 2 values are not 3"}};
  for (const Case& one : cases) {
    SmallPush push(0, 1, 0, 1);
    push->pieces.erase(push->pieces.begin());
    push->pieces.push_back(one.piece);
    Values given;
    expect_error(ErrorCode::invalid_argument, one.says,
                 [&] { server.push(trainee(0), *push, given); });
  }
  EXPECT_EQ(server.figures("run").step, 0U);
  EXPECT_THAT(values_of(server, trainee(0), 1), ElementsAre(1.0F));
  SmallPush others(1, 1, 0, 1);
  Values given;
  expect_error(ErrorCode::invalid_argument, "replica 1 is not one of the chief",
               [&] { server.push(trainee(0), *others, given); });
}

TEST(AsyncServer, TellsTheLostFromTheSlow) {
  test::HandClock clock;
  ShardServer server({.peer_timeout = milliseconds(1000), .now = clock.reader()});
  open_run(server, small_beginning("async", 3));
  clock.pass(milliseconds(600));
  EXPECT_TRUE(server.beat(trainee(0), {}).ok());
  EXPECT_TRUE(server.beat(trainee(1), {}).ok());
  clock.pass(milliseconds(600));
  server.look();
  ServerFigures figures = server.figures("run");
  EXPECT_THAT(figures.lost, ElementsAre(2));
  EXPECT_FALSE(figures.others_ended);
  expect_error(ErrorCode::cancelled, "process 2 was taken for lost: nothing was heard of it for",
               [&] { static_cast<void>(server.beat(trainee(2), {})); });
  expect_error(ErrorCode::cancelled, "process 2 may not continue",
               [&] { static_cast<void>(server.enter(trainee(2), {}, milliseconds(0))); });
  // It comes again, and has the place of who was there; the chief lives.
  EXPECT_TRUE(server.beat(trainee(0), {}).ok());
  static_cast<void>(server.enter(trainee(2, "b"), {}, milliseconds(0)));
  EXPECT_TRUE(server.beat(trainee(2, "b"), {}).ok());
  expect_error(ErrorCode::cancelled, "another one has taken the place of process 2",
               [&] { static_cast<void>(server.beat(trainee(2), {})); });
  server.leave(trainee(1), 1);
  server.leave(trainee(2, "b"), 2);
  EXPECT_TRUE(server.figures("run").others_ended);
  EXPECT_EQ(server.figures("run").losses, 1U);
}

/// Who is started again with all others, after the chief's death, may be there before that is
/// known.
TEST(AsyncServer, RestartedProcess) {
  const TimeLimit limit(60);
  test::HandClock clock;
  ShardServer server({.peer_timeout = milliseconds(1000), .now = clock.reader()});
  open_run(server, small_beginning("async", 2));
  clock.pass(milliseconds(1));
  const auto enter = [&](const std::string& incarnation, milliseconds longest) {
    return server.enter(trainee(1, incarnation), {}, longest).run;
  };
  expect_error(ErrorCode::no_progress, "the chief gave no sign of life",
               [&] { static_cast<void>(enter("b", milliseconds(5))); });
  EXPECT_TRUE(server.beat(trainee(1), {}).ok()) << "nobody has taken its place";
  std::jthread chief([&] {
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_TRUE(server.beat(trainee(0), {}).ok());
  });
  EXPECT_EQ(enter("b", milliseconds(20'000)), "run");
  chief.join();
  // The chief is dead, and not yet lost.
  clock.pass(milliseconds(900));
  std::jthread time([&] {
    std::this_thread::sleep_for(milliseconds(20));
    clock.pass(milliseconds(200));
    server.look();
  });
  expect_error(ErrorCode::unavailable, "the chief was lost",
               [&] { static_cast<void>(enter("c", milliseconds(20'000))); });
}

TEST(AsyncServer, FinishedProcess) {
  test::HandClock clock;
  ShardServer server({.peer_timeout = milliseconds(1000),
                      .join_timeout = milliseconds(5000),
                      .now = clock.reader()});
  Beginning beginning = small_beginning("async", 3);
  beginning.batches = 4;
  beginning.pushes = {1, 4, 3};
  server.begin(beginning, trainee(0));
  server.ready("run");
  ServerFigures figures = server.figures("run");
  EXPECT_EQ(figures.left, 1);
  EXPECT_EQ(figures.lost_ms, ServerFigures::kNobody);
  // Process 2 has a batch left, and does not come; since the beginning, as is known at the timeout.
  clock.pass(milliseconds(4900));
  EXPECT_TRUE(server.beat(trainee(0), {}).ok());
  clock.pass(milliseconds(200));
  server.look();
  figures = server.figures("run");
  EXPECT_THAT(figures.lost, ElementsAre(2));
  EXPECT_TRUE(figures.others_ended);
  EXPECT_EQ(figures.lost_ms, 5100U);
}

TEST(AsyncServer, LossWhereAllAreNeeded) {
  test::HandClock clock;
  ShardServer server({.peer_timeout = milliseconds(1000), .now = clock.reader()});
  Beginning beginning = small_beginning("async", 2);
  beginning.all_needed = true;
  open_run(server, beginning);
  clock.pass(milliseconds(900));
  EXPECT_TRUE(server.beat(trainee(0), {}).ok());
  clock.pass(milliseconds(200));
  server.look();
  expect_error(ErrorCode::unavailable, "process 1 was lost: nothing was heard of it for 1000 ms",
               [&] { static_cast<void>(server.beat(trainee(0), {})); });
}

TEST(AsyncServer, LostChief) {
  test::HandClock clock;
  ShardServer server({.peer_timeout = milliseconds(1000), .now = clock.reader()});
  open_run(server, small_beginning("async", 2));
  Beginning next = small_beginning("async", 2);
  next.run = "next";
  expect_error(ErrorCode::unavailable, "an earlier run has not ended",
               [&] { server.begin(next, trainee(0, "b")); });
  clock.pass(milliseconds(900));
  EXPECT_TRUE(server.beat(trainee(1), {}).ok());
  clock.pass(milliseconds(100));
  server.look();
  expect_error(ErrorCode::unavailable, "the chief was lost",
               [&] { static_cast<void>(server.beat(trainee(1), {})); });
  ASSERT_TRUE(server.ended(milliseconds(0)));
  server.begin(next, trainee(0, "b"));
  expect_error(ErrorCode::no_progress, "no run has begun",
               [&] { static_cast<void>(server.enter(trainee(1, "b"), {}, milliseconds(1))); });
}

TEST(AsyncServer, ProcessesWithOtherFacts) {
  ShardServer server;
  Beginning beginning = small_beginning("async", 1);
  beginning.facts = {{"seed", "3"}};
  open_run(server, beginning);
  expect_error(ErrorCode::invalid_argument, "process 1 has another seed than the chief: 4, not 3",
               [&] {
                 static_cast<void>(server.enter(trainee(1), {{"seed", "4"}}, {}));
               });
  expect_error(ErrorCode::invalid_argument, "there is no process 1 in a run of 1", [&] {
    static_cast<void>(server.enter(trainee(1), {{"seed", "3"}}, {}));
  });
}

TEST(AsyncServer, KeptState) {
  ShardServer server;
  Beginning beginning = small_beginning("async", 2);
  beginning.optimizer = "momentum:0.5";
  open_run(server, beginning);
  const auto push = [&](std::uint64_t number) {
    SmallPush one(1, number, number - 1, 0.5F);
    Values given;
    server.push(trainee(1), *one, given);
  };
  push(1);
  server.keep_feed(trainee(1), {"here", {1}});
  push(2);
  server.keep_feed(trainee(1), {"there", {2}});
  const SnapshotHead head = server.keep("run");
  push(3);
  EXPECT_EQ(head.step, 2U);
  EXPECT_THAT(head.pushes, ElementsAre(0, 2));
  EXPECT_EQ(head.feeds.at(1).position, "there");
  Values values;
  server.snapshot("run", -1, values);
  EXPECT_THAT(values.given.at(1), ElementsAre(1 - 0.5F - 0.75F));
  Values slots;
  server.snapshot("run", 0, slots);
  EXPECT_THAT(slots.given.at(1), ElementsAre(0.75F));
  expect_error(ErrorCode::invalid_argument, "remembers no 1 of variable a", [&] {
    Values none;
    server.snapshot("run", 1, none);
  });
}

}  // namespace
}  // namespace penstock::towers
