// What each rendezvous promises, whoever keeps it: ranks meet, as threads of one process.
#include "cluster/rendezvous.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "cluster/net/open.h"
#include "tests/cluster/etcd_server.h"
#include "tests/cluster/ranks.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::EtcdServer;
using penstock::test::TimeLimit;
using test::error_of;
using test::free_address;
using test::on_all;
using test::options_of;
using test::rank_of;

struct Kind {
  const char* name;
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

class RendezvousOf : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (etcd() && !EtcdServer::installed())
      GTEST_SKIP()
          << "etcd is not installed (tools/setup.sh --checks): this rendezvous is NOT tested";
  }
  static void TearDownTestSuite() { server_.reset(); }

  bool etcd() const { return GetParam().name == std::string("etcd"); }
  /// Where nobody has met.
  std::string place() {
    if (!etcd()) return "grpc://" + free_address();
    if (!server_) server_ = std::make_unique<EtcdServer>();
    return server_->url("job-" + std::to_string(++jobs_));
  }
  static std::unique_ptr<Rendezvous> open(const std::string& place, int rank, int world,
                                          const RendezvousOptions& options = options_of()) {
    return open_either(rank_of(place, rank, world), options);
  }

 private:
  static inline std::unique_ptr<EtcdServer> server_;
  static inline int jobs_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Kept, RendezvousOf, testing::Values(Kind{"by_rank_0"}, Kind{"etcd"}),
                         [](const auto& row) { return row.param.name; });

TEST_P(RendezvousOf, KeysOfAllRanks) {
  const TimeLimit limit(60);
  for (const int world : {1, 2, 4}) {
    const std::string there = place();
    for (const std::string& error : on_all(world, [&](int rank) {
           // Not in the order of ranks: rank 0 comes last.
           std::this_thread::sleep_for(std::chrono::milliseconds(30 * (world - rank)));
           const auto mine = open(there, rank, world);
           mine->join({{"version", "1"}});
           mine->put("address of " + std::to_string(rank), std::string(1000, 'a' + char(rank)));
           for (int other = 0; other < world; ++other)
             EXPECT_EQ(mine->get("address of " + std::to_string(other), 10s),
                       std::string(1000, 'a' + char(other)));
           EXPECT_TRUE(mine->status().ok());
         }))
      EXPECT_EQ(error, "");
  }
}

TEST_P(RendezvousOf, MessagesToRankZeroAndItsClock) {
  const TimeLimit limit(60);
  const std::string there = place();
  std::atomic<int> done = 0;
  const auto errors = on_all(3, [&](int rank) {
    const auto mine = open(there, rank, 3);
    mine->join({});
    mine->say("first");
    mine->say(rank == 2 ? std::string(20'000, 'x') : "rank " + std::to_string(rank));
    const auto within = [](const auto& reached) {
      for (int tries = 0; tries < 3000 && !reached(); ++tries) std::this_thread::sleep_for(10ms);
      return reached();
    };
    if (rank == 0) {
      EXPECT_TRUE(within([&] {
        const std::vector<std::string> said = mine->said();
        return said.size() == 3 && said[0] == "rank 0" && said[1] == "rank 1";
      }));
      EXPECT_NE(mine->said()[2].size(), 20'000U) << "too much";
    } else {
      EXPECT_TRUE(mine->said().empty());
    }
    if (!etcd()) {  // etcd has no clock of rank 0's
      // On one machine all have one clock.
      EXPECT_TRUE(within([&] { return mine->clock().within_ns >= 0; }));
      const ClockOffset offset = mine->clock();
      EXPECT_LE(std::abs(offset.ahead_ns), offset.within_ns);
      EXPECT_LT(offset.within_ns, 1'000'000'000);
    }
    ++done;
    while (done < 3) std::this_thread::sleep_for(1ms);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST_P(RendezvousOf, ReusedAddress) {
  const TimeLimit limit(60);
  const std::string there = place();
  for (const int world : {2, 3, 1, 2})
    for (const std::string& error : on_all(world, [&](int rank) {
           const auto mine = open(there, rank, world);
           mine->join({{"world", std::to_string(world)}});
           mine->put("k", std::to_string(world));
           EXPECT_EQ(mine->get("k", 10s), std::to_string(world)) << "not what was told before";
           mine->put("seen by " + std::to_string(rank), "");
           for (int other = 0; other < world; ++other)
             mine->get("seen by " + std::to_string(other), 10s);
         }))
      EXPECT_EQ(error, "") << world;
}

TEST_P(RendezvousOf, OddRank) {
  const TimeLimit limit(60);
  const std::string there = place();
  const auto errors = on_all(3, [&](int rank) {
    open(there, rank, 3)->join({{"data", rank == 1 ? "abc" : "def"}});
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error, "ranks differ: rank 1 with data abc, ranks 0, 2 with data def");
}

TEST_P(RendezvousOf, NamesWhoDidNotCome) {
  const TimeLimit limit(60);
  const std::string there = place();
  const auto errors =
      on_all(2, [&](int rank) { open(there, rank, 3, options_of(500ms))->join({}); });
  for (const std::string& error : errors)
    EXPECT_EQ(error, "rank 2 did not join the rendezvous within 500 ms");
  EXPECT_NE(error_of([&] { open(place(), 1, 2, options_of(300ms))->join({}); })
                .find(etcd() ? "rank 0 did not join the rendezvous within 300 ms"
                             : "rank 0 was not reached at 127.0.0.1:"),
            std::string::npos);
}

TEST_P(RendezvousOf, OtherNumbersOfRanks) {
  const TimeLimit limit(60);
  const std::string there = place();
  RendezvousOptions options = options_of();
  options.peer_timeout = 2s;
  std::atomic<bool> refused = false;
  const auto errors = on_all(3, [&](int thread) {
    if (thread == 2) {
      const std::string error = error_of([&] { open(there, 1, 3, options)->join({}); });
      refused = true;
      throw Error(ErrorCode::internal, error);
    }
    const auto mine = open(there, thread, 2, options);
    mine->join({});
    while (!refused) std::this_thread::sleep_for(10ms);
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], "");
  EXPECT_EQ(errors[2], "rank 1 expects 3 processes, rank 0 expects 2");
}

TEST_P(RendezvousOf, DuplicateRank) {
  const TimeLimit limit(60);
  const std::string there = place();
  RendezvousOptions options = options_of();
  options.peer_timeout = 2s;
  std::atomic<bool> met = false;
  std::atomic<bool> refused = false;
  const auto errors = on_all(3, [&](int thread) {
    const int rank = thread == 0 ? 0 : 1;
    const auto mine = open(there, rank, 2, options);
    if (thread == 2) {
      while (!met) std::this_thread::sleep_for(10ms);
      const std::string error = error_of([&] { mine->join({}); });
      refused = true;
      throw Error(ErrorCode::internal, error);
    }
    mine->join({});
    met = true;
    while (!refused) std::this_thread::sleep_for(10ms);
    EXPECT_TRUE(mine->status().ok()) << mine->status().error().what();
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], "");
  EXPECT_EQ(errors[2],
            "another process has joined as rank 1: either two have this rank, or it was restarted "
            "before the job had ended");
}

TEST_P(RendezvousOf, FailureOfOneRank) {
  const TimeLimit limit(60);
  const std::string there = place();
  std::atomic<int> told = 0;
  std::atomic<int> watching = 0;  // who is late hears it when it joins
  const auto errors = on_all(3, [&](int rank) {
    const auto mine = open(there, rank, 3);
    mine->join({});
    ++watching;
    std::atomic<bool> heard = false;
    mine->watch(&heard, [&](const Status&) {
      ++told;
      heard = true;
    });
    if (rank == 2) mine->fail(Status(ErrorCode::data_loss, "a bad record"));
    const std::string error = error_of([&] { mine->get("never told", 30s); });
    while (!heard) std::this_thread::sleep_for(1ms);
    mine->unwatch(&heard);
    throw Error(ErrorCode::internal, error);
  });
  EXPECT_GE(watching, 1);
  EXPECT_EQ(told, watching);
  for (const std::string& error : errors) EXPECT_EQ(error, "rank 2: a bad record");
}

TEST_P(RendezvousOf, UnknownAndOversizedKeys) {
  const TimeLimit limit(60);
  const auto alone = open(place(), 0, 1);
  alone->join({});
  EXPECT_EQ(error_of([&] { alone->get("k", 50ms); }), "no rank has told k in 50 ms");
  EXPECT_NE(error_of([&] { alone->put("k", std::string((1 << 20) + 1, 'x')); }).find("no room"),
            std::string::npos);
  alone->put("k", "first");
  alone->put("k", "second");
  EXPECT_EQ(alone->get("k", 1s), "first");
  alone->put("large", std::string(1 << 20, 'x'));
  EXPECT_EQ(alone->get("large", 1s).size(), std::size_t{1 << 20});
}

TEST_P(RendezvousOf, DepartedRank) {
  const TimeLimit limit(60);
  const std::string there = place();
  RendezvousOptions options = options_of();
  options.peer_timeout = 2s;
  const auto errors = on_all(3, [&](int rank) {
    const auto mine = open(there, rank, 3, options);
    mine->join({});
    if (rank == 1) return;
    mine->put("ready " + std::to_string(rank), "");
    mine->get("ready " + std::to_string(2 - rank), 10s);
    // Longer than anyone's patience.
    if (rank == 2) {
      EXPECT_EQ(error_of([&] { mine->get("never told", 3s); }),
                "no rank has told never told in 3000 ms");
    }
    if (rank == 2) mine->put("waited", "");
    mine->get("waited", 10s);
    EXPECT_TRUE(mine->status().ok());
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(Rendezvous, AddressInUse) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  const auto first = open_grpc(rank_of(address, 0, 1), options_of());
  EXPECT_NE(error_of([&] {
              open_grpc(rank_of(address, 0, 1), options_of());
            }).find("can't listen at " + address),
            std::string::npos);
}

}  // namespace
}  // namespace penstock::cluster
