// Who has come, who is lost, and what ended a job: lists of calls, without threads.
#include "cluster/lobby.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;

Lobby::Time at(int seconds) {
  return Lobby::Time(std::chrono::seconds(1000 + seconds));
}

std::string text_of(const Status& status) {
  return status.ok() ? "" : status.error().what();
}

Lobby complete(const std::vector<Facts>& facts) {
  Lobby lobby(static_cast<int>(facts.size()), 5s);
  for (std::size_t r = 0; r < facts.size(); ++r)
    EXPECT_TRUE(lobby.join(static_cast<int>(r), "p" + std::to_string(r), facts[r], at(0)).ok());
  EXPECT_TRUE(lobby.complete());
  return lobby;
}

TEST(Lobby, NamesWhoIsMissing) {
  Lobby lobby(4, 5s);
  EXPECT_EQ(lobby.missing(), "ranks 0, 1, 2, 3");
  EXPECT_TRUE(lobby.join(2, "a", {}, at(0)).ok());
  EXPECT_TRUE(lobby.join(0, "b", {}, at(0)).ok());
  EXPECT_TRUE(lobby.join(0, "b", {}, at(1)).ok()) << "asking again is no second process";
  EXPECT_EQ(lobby.missing(), "ranks 1, 3");
  EXPECT_TRUE(lobby.join(1, "c", {}, at(1)).ok());
  EXPECT_EQ(lobby.missing(), "rank 3");
  EXPECT_FALSE(lobby.complete());
  EXPECT_TRUE(lobby.join(3, "d", {}, at(1)).ok());
  EXPECT_EQ(lobby.missing(), "");
  EXPECT_TRUE(lobby.complete());
  EXPECT_TRUE(lobby.status().ok());
}

TEST(Lobby, RefusesStrangersWithoutEndingTheJob) {
  Lobby lobby(2, 5s);
  EXPECT_TRUE(lobby.join(0, "a", {}, at(0)).ok());
  EXPECT_EQ(text_of(lobby.join(0, "b", {}, at(0))),
            "another process has joined as rank 0: either two have this rank, or it was restarted "
            "before the job had ended");
  EXPECT_EQ(text_of(lobby.join(2, "c", {}, at(0))), "rank 2 of a job with 2 ranks");
  EXPECT_EQ(text_of(lobby.join(-1, "c", {}, at(0))), "rank -1 of a job with 2 ranks");
  lobby.fail(0, "b", Error(ErrorCode::internal, "a stranger's"));
  lobby.leave(0, "b");
  lobby.beat(7, "b", at(1));
  EXPECT_TRUE(lobby.join(1, "b", {}, at(0)).ok());
  EXPECT_TRUE(lobby.status().ok()) << text_of(lobby.status());
}

TEST(Lobby, NamesTheOddRank) {
  struct Row {
    std::vector<Facts> facts;
    std::string verdict;
  };
  const Facts one{{"graph", "g"}, {"version", "1"}};
  const Facts two{{"graph", "g"}, {"version", "2"}};
  const std::vector<Row> rows = {
      {{one}, ""},
      {{one, one, one}, ""},
      {{one, two, one}, "ranks differ: rank 1 with version 2, ranks 0, 2 with version 1"},
      {{two, one, one}, "ranks differ: rank 0 with version 2, ranks 1, 2 with version 1"},
      {{one, two}, "ranks differ: rank 1 with version 2, rank 0 with version 1"},
      {{one, {{"graph", "g"}}, one},
       "ranks differ: rank 1 with version none, ranks 0, 2 with version 1"},
      {{{{"a", "1"}, {"b", "1"}}, {{"a", "2"}, {"b", "2"}}},
       "ranks differ: rank 1 with a 2, rank 0 with a 1"},
  };
  for (const Row& row : rows) EXPECT_EQ(text_of(complete(row.facts).status()), row.verdict);
}

TEST(Lobby, SilentRank) {
  Lobby lobby = complete({{}, {}, {}});
  lobby.beat(0, "p0", at(4));
  lobby.beat(2, "p2", at(3));
  lobby.look(at(5));
  EXPECT_TRUE(lobby.status().ok()) << "exactly as long as it may take";
  lobby.look(at(6));
  EXPECT_EQ(text_of(lobby.status()), "rank 1 was lost: no sign of life for 5000 ms");
  EXPECT_EQ(lobby.status().error().code(), ErrorCode::unavailable);
  lobby.beat(1, "p1", at(6));
  lobby.look(at(20));
  EXPECT_EQ(text_of(lobby.status()), "rank 1 was lost: no sign of life for 5000 ms")
      << "what has ended stays ended";
}

TEST(Lobby, DepartedRank) {
  Lobby lobby = complete({{}, {}});
  lobby.leave(1, "p1");
  EXPECT_FALSE(lobby.all_left(at(1)));
  for (int t = 1; t < 30; ++t) {
    lobby.beat(0, "p0", at(t));
    lobby.look(at(t));
  }
  EXPECT_TRUE(lobby.status().ok());
  lobby.leave(0, "p0");
  EXPECT_TRUE(lobby.all_left(at(30)));
}

TEST(Lobby, FirstFailure) {
  Lobby lobby = complete({{}, {}});
  lobby.fail(1, "p1", Error(ErrorCode::data_loss, "a bad record"));
  lobby.fail(0, "p0", Error(ErrorCode::internal, "later"));
  lobby.look(at(60));
  EXPECT_EQ(text_of(lobby.status()), "rank 1: a bad record");
  EXPECT_EQ(lobby.status().error().code(), ErrorCode::data_loss);
}

TEST(Lobby, LongLists) {
  const Lobby lobby(4096, 5s);
  EXPECT_EQ(lobby.missing(), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4088 more");
}

}  // namespace
}  // namespace penstock::cluster
