// Ranks and etcd are killed and frozen; all that are left name who was lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>

#include "tests/cluster/etcd_server.h"
#include "tests/cluster/free_address.h"
#include "tests/cluster/rank_process.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::EtcdServer;
using penstock::test::free_address;
using penstock::test::TimeLimit;
using test::RankProcess;

struct Death {
  const char* name;
  const char* rendezvous;
  int rank;
  int signal;
  const char* work = "wait";
};

class Deaths : public testing::TestWithParam<Death> {};

TEST_P(Deaths, EndAllOthersNamingWhoWasLost) {
  const TimeLimit limit(100);
  constexpr int kWorld = 3;
  constexpr int kTimeoutMs = 1500;
  std::unique_ptr<EtcdServer> etcd;
  std::string place = free_address();
  if (GetParam().rendezvous == std::string("etcd")) {
    if (!EtcdServer::installed()) GTEST_SKIP() << "etcd is not installed: this is NOT tested";
    etcd = std::make_unique<EtcdServer>();
    place = etcd->url("job");
  }
  std::vector<std::unique_ptr<RankProcess>> ranks;
  for (int rank = 0; rank < kWorld; ++rank)
    ranks.push_back(
        std::make_unique<RankProcess>(place, rank, kWorld, kTimeoutMs, GetParam().work));
  const auto all_joined = [&] {
    return std::all_of(ranks.begin(), ranks.end(),
                       [](const auto& rank) { return rank->said() == "joined\n"; });
  };
  while (!all_joined()) std::this_thread::sleep_for(5ms);
  const auto start = std::chrono::steady_clock::now();
  ranks[static_cast<std::size_t>(GetParam().rank)]->signal(GetParam().signal);
  for (int rank = 0; rank < kWorld; ++rank) {
    if (rank == GetParam().rank) continue;
    RankProcess& survivor = *ranks[static_cast<std::size_t>(rank)];
    EXPECT_EQ(survivor.wait(), 75);
    EXPECT_NE(survivor.said().find("rank " + std::to_string(GetParam().rank)), std::string::npos)
        << survivor.said();
    EXPECT_NE(survivor.said().find(" lost: no "), std::string::npos) << survivor.said();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

std::vector<Death> deaths() {
  std::vector<Death> rows;
  for (const char* kept : {"by_rank_0", "etcd"})
    for (const Death& row :
         {Death{"killed", kept, 2, SIGKILL}, Death{"frozen", kept, 1, SIGSTOP},
          Death{"chief_killed", kept, 0, SIGKILL}, Death{"chief_frozen", kept, 0, SIGSTOP},
          Death{"killed_in_ordered", kept, 2, SIGKILL, "ordered"},
          Death{"frozen_in_ordered", kept, 1, SIGSTOP, "ordered"},
          Death{"killed_in_ring", kept, 1, SIGKILL, "ring"},
          Death{"frozen_in_ring", kept, 2, SIGSTOP, "ring"},
          Death{"chief_killed_in_ring", kept, 0, SIGKILL, "ring"},
          Death{"killed_over_grpc", kept, 1, SIGKILL, "grpc"},
          Death{"frozen_over_grpc", kept, 2, SIGSTOP, "grpc"},
          Death{"chief_killed_over_grpc", kept, 0, SIGKILL, "grpc"}})
      rows.push_back(row);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Of, Deaths, testing::ValuesIn(deaths()), [](const auto& row) {
  return std::string(row.param.name) + "_" + row.param.rendezvous;
});

class EtcdDeaths : public testing::TestWithParam<int> {};

TEST_P(EtcdDeaths, EndAllNamingIt) {
  const TimeLimit limit(100);
  if (!EtcdServer::installed()) GTEST_SKIP() << "etcd is not installed: this is NOT tested";
  EtcdServer etcd;
  std::vector<std::unique_ptr<RankProcess>> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::make_unique<RankProcess>(etcd.url("job"), rank, 2, 1500, "ordered"));
  for (const auto& rank : ranks)
    while (rank->said() != "joined\n") std::this_thread::sleep_for(5ms);
  const auto start = std::chrono::steady_clock::now();
  etcd.signal(GetParam());
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->wait(), 75);
    EXPECT_NE(rank->said().find("etcd at " + etcd.address() + " was lost: no answer for 1500 ms"),
              std::string::npos)
        << rank->said();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

INSTANTIATE_TEST_SUITE_P(By, EtcdDeaths, testing::Values(SIGKILL, SIGSTOP));

}  // namespace
}  // namespace penstock::cluster
