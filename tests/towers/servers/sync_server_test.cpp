// sync_replicas on the virtual clock: who is slow, who leaves, who joins late, who dies.
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/error.h>

#include "tests/support/errors.h"
#include "tests/support/time_limit.h"
#include "tests/towers/servers/schedules.h"
#include "tests/towers/servers/small_run.h"

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

constexpr milliseconds kPeerTimeout{1000};

/// A server, and replicas that do what a schedule says.
class Schedule {
 public:
  Schedule(int total, int aggregate)
      : server_({.peer_timeout = kPeerTimeout, .now = clock_.reader()}),
        numbers_(static_cast<std::size_t>(total)),
        incarnations_(static_cast<std::size_t>(total), "a"),
        alive_(static_cast<std::size_t>(total), true) {
    Beginning beginning = small_beginning("sync_replicas", total);
    beginning.aggregate = aggregate;
    open_run(server_, beginning);
  }

  void play(const std::string& text) {
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const bool is_plain = word[0] >= '0' && word[0] <= '9';
      const int replica = std::stoi(is_plain ? word : word.substr(1));
      switch (word[0]) {
        case '-':
          server_.leave(who(replica), replica);
          break;
        case 'x':
          lose(replica);
          break;
        case '+':
          incarnations_[at(replica)] += "a";
          alive_[at(replica)] = true;
          static_cast<void>(server_.enter(who(replica), {}, milliseconds(0)));
          break;
        default:
          push(replica);
      }
    }
  }

  /// Tokens that replicas hold, in their order: the step of each, "-" for none.
  std::string tokens() {
    std::string all;
    for (std::size_t r = 0; r < numbers_.size(); ++r) {
      std::uint64_t step = 0;
      bool finished = false;
      const int replica = static_cast<int>(r);
      const bool has =
          alive_[r] && server_.take(who(replica), replica, milliseconds(0), step, finished);
      all += (all.empty() ? "" : " ") + (has ? std::to_string(step) : "-");
    }
    return all;
  }
  ServerFigures figures() { return server_.figures("run"); }

 private:
  static std::size_t at(int replica) { return static_cast<std::size_t>(replica); }
  Trainee who(int replica) const { return trainee(replica, incarnations_[at(replica)]); }

  void push(int replica) {
    std::uint64_t step = 0;
    bool finished = false;
    ASSERT_TRUE(server_.take(who(replica), replica, milliseconds(0), step, finished))
        << replica << " has no token";
    const std::uint64_t number = ++numbers_[at(replica)];
    SmallPush push(replica, number, step, 0.01F);
    Values none;
    for (int again = 0; again < 2; ++again) {  // as if the answer were lost
      static_cast<void>(server_.push(who(replica), *push, none));
      static_cast<void>(server_.commit(who(replica), replica, number, step, 1));
    }
  }

  void lose(int replica) {
    alive_[at(replica)] = false;
    for (int half = 0; half < 2; ++half) {
      clock_.pass(kPeerTimeout / 2);
      for (std::size_t r = 0; r < alive_.size(); ++r)
        if (alive_[r]) static_cast<void>(server_.beat(who(static_cast<int>(r)), {}));
    }
    server_.look();
  }

  test::HandClock clock_;
  ShardServer server_;
  std::vector<std::uint64_t> numbers_;
  std::vector<std::string> incarnations_;
  std::vector<bool> alive_;
};

TEST(SyncServer, TwentySchedules) {
  const TimeLimit limit(60);
  for (const test::WorkedOut& one : test::schedules()) {
    SCOPED_TRACE(one.name);
    Schedule schedule(one.total, one.aggregate);
    schedule.play(one.play);
    const ServerFigures figures = schedule.figures();
    EXPECT_EQ(figures.step, one.steps);
    EXPECT_EQ(figures.applied, one.applied);
    EXPECT_EQ(figures.dropped, one.dropped);
    EXPECT_EQ(figures.pending, one.pending);
    std::string expected = one.tokens;
    std::ranges::replace(expected, '.', '-');
    EXPECT_EQ(schedule.tokens(), expected);
  }
}

TEST(SyncServer, MeanOverRowsAndStatistics) {
  ShardServer server;
  open_run(server, small_beginning("sync_replicas", 2));
  Values none;
  SmallPush second(1, 1, 0, 0.75F, 3);
  SmallPush first(0, 1, 0, 0.25F, 1);
  for (SmallPush* push : {&second, &first}) {
    const Trainee who = trainee((*push)->replica);
    EXPECT_EQ(server.push(who, **push, none).verdict, PushVerdict::pending);
    server.commit(who, (*push)->replica, 1, 0, (*push)->rows);
  }
  EXPECT_THAT(values_of(server, trainee(0), 1), ElementsAre(1 - (0.25F / 4 + 0.75F * 3 / 4)));
}

TEST(SyncServer, CommitWithoutTokenOrPush) {
  ShardServer server;
  open_run(server, small_beginning("sync_replicas", 2));
  expect_error(ErrorCode::invalid_argument, "push 1 of replica 0 is not here",
               [&] { server.commit(trainee(0), 0, 1, 0, 1); });
  Values none;
  for (std::uint64_t number = 1; number <= 2; ++number) {
    SmallPush push(0, number, 0, 1);
    server.push(trainee(0), *push, none);
    if (number == 1) {
      server.commit(trainee(0), 0, number, 0, 1);
    } else {
      expect_error(ErrorCode::invalid_argument, "replica 0 pushes without a token",
                   [&] { server.commit(trainee(0), 0, number, 0, 1); });
    }
  }
}

TEST(SyncServer, SnapshotBeforeAnUpdate) {
  test::HandClock clock;
  ShardServer server({.now = clock.reader()});
  open_run(server, small_beginning("sync_replicas", 2));
  Values none;
  SmallPush push(1, 1, 0, 1);
  server.push(trainee(1), *push, none);
  server.commit(trainee(1), 1, 1, 0, 1);
  server.keep_feed(trainee(1), {"behind it", {1}});
  const SnapshotHead head = server.keep("run");
  EXPECT_THAT(head.pushes, ElementsAre(0, 0)) << "it has to be made again";
  EXPECT_EQ(head.feeds.at(1).position, "") << "from before it";
  // In the same run it counts.
  const Entered entered = server.enter(trainee(1, "b"), {}, milliseconds(0));
  EXPECT_THAT(entered.pushes, ElementsAre(0, 1));
  EXPECT_EQ(entered.feed.position, "behind it");
}

TEST(SyncServer, ProcessAfterTheEnd) {
  const TimeLimit limit(60);
  ShardServer server;
  server.begin(small_beginning("sync_replicas", 2), trainee(0));
  server.ready("run");
  server.end("run", {});
  const auto began = std::chrono::steady_clock::now();
  server.wait_until_known(milliseconds(50));
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(50)) << "process 1 is awaited";
  EXPECT_TRUE(server.enter(trainee(1), {}, milliseconds(10)).finished);
  server.wait_until_known(milliseconds(60'000));
  // Another run that begins in time is entered.
  std::jthread chief([&] {
    Beginning again = small_beginning("sync_replicas", 2);
    again.run = "again";
    server.begin(again, trainee(0, "b"));
    server.ready("again");
  });
  const Entered entered = server.enter(trainee(1, "b"), {}, milliseconds(60'000));
  EXPECT_EQ(entered.run, "again");
  EXPECT_FALSE(entered.finished);
}

}  // namespace
}  // namespace penstock::towers
