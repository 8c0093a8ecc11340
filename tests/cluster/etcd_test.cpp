// What only etcd as a rendezvous promises: fencing, several jobs on one etcd, what is left behind,
// an etcd that is away for a while, and certificates.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cluster/net/etcd_client.h"
#include "cluster/net/etcd_members.h"
#include "cluster/net/open.h"
#include "tests/cluster/certificates.h"
#include "tests/cluster/etcd_server.h"
#include "tests/cluster/ranks.h"
#include "tests/support/files.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::EtcdServer;
using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using test::error_of;
using test::make_certificates;
using test::on_all;
using test::options_of;
using test::rank_of;

class Etcd : public testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdServer::installed())
      GTEST_SKIP() << "etcd is not installed (tools/setup.sh --checks): this is NOT tested";
    server_ = std::make_unique<EtcdServer>();
    client_ = std::make_unique<EtcdClient>(std::vector{server_->address()}, TlsFiles{}, 2s);
  }

  std::unique_ptr<Rendezvous> open(const std::string& job, int rank, int world,
                                   std::chrono::milliseconds peer_timeout = 5s) const {
    RendezvousOptions options = options_of();
    options.peer_timeout = peer_timeout;
    return open_either(rank_of(server_->url(job), rank, world), options);
  }
  etcdserverpb::RangeResponse all_keys() const {
    etcdserverpb::RangeRequest request;
    request.set_key("/penstock/");
    request.set_range_end(EtcdKeys::behind("/penstock/"));
    etcdserverpb::RangeResponse reply;
    EXPECT_TRUE(client_->range(request, reply).ok());
    return reply;
  }
  void wait_until_nothing_is_left() const {
    for (int tries = 0; tries < 1000 && all_keys().count() > 0; ++tries)
      std::this_thread::sleep_for(20ms);
    const etcdserverpb::RangeResponse left = all_keys();
    EXPECT_EQ(left.count(), 0) << left.kvs(0).key();
  }
  /// Takes the lease of a job's rank 0 away, as if it had been frozen for too long.
  void end_lease_of_rank_0(const std::string& job) const {
    etcdserverpb::RangeRequest request;
    request.set_key(EtcdKeys(job).chief());
    etcdserverpb::RangeResponse reply;
    ASSERT_TRUE(client_->range(request, reply).ok());
    ASSERT_EQ(reply.kvs_size(), 1);
    ASSERT_TRUE(client_->revoke(reply.kvs(0).lease()).ok());
  }

  std::unique_ptr<EtcdServer> server_;
  std::unique_ptr<EtcdClient> client_;
};

TEST_F(Etcd, WritesBehindAnExpiredLease) {
  const TimeLimit limit(60);
  // So patient that it does not notice by itself.
  const auto old = open("job", 0, 1, 60s);
  old->join({});
  old->put("k", "old");
  end_lease_of_rank_0("job");
  EXPECT_NE(error_of([&] { old->put("k", "late"); }).find("rank 0"), std::string::npos);
  const auto fresh = open("job", 0, 1);
  fresh->join({});
  EXPECT_EQ(error_of([&] { fresh->get("k", 50ms); }), "no rank has told k in 50 ms");
  const std::int64_t before = all_keys().header().revision();
  EXPECT_NE(error_of([&] { old->put("k", "zombie"); }), "");
  EXPECT_EQ(all_keys().header().revision(), before) << "the zombie wrote something";
  fresh->put("k", "fresh");
  EXPECT_EQ(fresh->get("k", 1s), "fresh");
  EXPECT_TRUE(fresh->status().ok());
}

TEST_F(Etcd, ExpiredLease) {
  const TimeLimit limit(60);
  const auto errors = on_all(2, [&](int rank) {
    const auto mine = open("job", rank, 2);
    mine->join({});
    mine->put("here " + std::to_string(rank), "");
    mine->get("here " + std::to_string(1 - rank), 10s);
    if (rank == 0) end_lease_of_rank_0("job");
    mine->get("never told", 30s);
  });
  EXPECT_EQ(errors[1], "rank 0 was lost: no sign of life for 5000 ms");
  EXPECT_NE(errors[0].find("rank 0"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("lost"), std::string::npos) << errors[0];
}

TEST_F(Etcd, SeparateJobs) {
  const TimeLimit limit(60);
  const std::vector<std::string> jobs{"a", "a-b", "a.b", "A"};
  const auto errors = on_all(8, [&](int thread) {
    const std::string& job = jobs[static_cast<std::size_t>(thread / 2)];
    const auto mine = open(job, thread % 2, 2, 5s);
    mine->join({{"job", job}});
    mine->put("told by " + std::to_string(thread % 2), job);
    EXPECT_EQ(mine->get("told by " + std::to_string(1 - thread % 2), 10s), job);
    EXPECT_TRUE(mine->status().ok());
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  wait_until_nothing_is_left();
}

TEST_F(Etcd, ShortOutage) {
  const TimeLimit limit(120);
  const auto errors = on_all(2, [&](int rank) {
    const auto mine = open("job", rank, 2, 40s);  // etcd may be slow to start
    mine->join({});
    mine->put("here " + std::to_string(rank), "");
    mine->get("here " + std::to_string(1 - rank), 40s);
    if (rank == 0) {
      server_->end();
      std::thread back([&] {
        std::this_thread::sleep_for(1s);
        server_->start();
      });
      mine->put("told meanwhile", "v");  // waits for it
      back.join();
    }
    EXPECT_EQ(mine->get("told meanwhile", 40s), "v");
    mine->put("done " + std::to_string(rank), "");
    mine->get("done " + std::to_string(1 - rank), 40s);
    EXPECT_TRUE(mine->status().ok()) << mine->status().error().what();
    // Watches still hear.
    if (rank == 0) mine->put("looked", "");
    if (rank == 1) {
      mine->get("looked", 40s);
      mine->fail(Status(ErrorCode::internal, "on purpose"));
    }
    EXPECT_EQ(error_of([&] { mine->get("never told", 40s); }), "rank 1: on purpose");
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST_F(Etcd, MalformedKeys) {
  const TimeLimit limit(60);
  const auto errors = on_all(2, [&](int rank) {
    const auto mine = open("job", rank, 2, 5s);
    mine->join({});
    if (rank == 0) {
      etcdserverpb::RangeRequest request;
      request.set_key(EtcdKeys("job").chief());
      etcdserverpb::RangeResponse chief;
      ASSERT_TRUE(client_->range(request, chief).ok());
      std::string run;
      const etcdserverpb::RangeResponse keys = all_keys();
      for (const auto& entry : keys.kvs())
        if (entry.key().ends_with("/begun"))
          run = entry.key().substr(0, entry.key().size() - 5) + "signs/";
      ASSERT_NE(run, "");
      for (const char* key : {"rank/7", "left/x", "ended", "?"}) {
        etcdserverpb::TxnRequest txn;
        txn.add_success()->mutable_request_put()->set_key(run + key);
        txn.mutable_success(0)->mutable_request_put()->set_value("\xff\xfe");
        txn.mutable_success(0)->mutable_request_put()->set_lease(chief.kvs(0).lease());
        etcdserverpb::TxnResponse reply;
        ASSERT_TRUE(client_->txn(txn, reply).ok());
      }
      while (mine->refused() < 2) std::this_thread::sleep_for(5ms);
    }
    mine->put("told by " + std::to_string(rank), "");
    mine->get("told by " + std::to_string(1 - rank), 20s);
    EXPECT_TRUE(mine->status().ok());
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(EtcdAddress, UnreachableAddress) {
  const TimeLimit limit(60);
  const std::string address = test::free_address();
  const std::string error = error_of([&] {
    open_either(rank_of("etcd://" + address + "/job", 0, 1), options_of(300ms))->join({});
  });
  EXPECT_NE(error.find("etcd at " + address + " was not reached"), std::string::npos) << error;
  EXPECT_NE(error_of([&] {
              open_either(rank_of("etcd://10.0.0.1:2379/job", 0, 1), options_of())->join({});
            }).find("--tls-cert"),
            std::string::npos);
}

TEST(EtcdAddress, ForeignServer) {
  const TimeLimit limit(60);
  const std::string address = test::free_address();
  const auto rank_0 = open_grpc(rank_of(address, 0, 2), options_of());
  const std::string error = error_of(
      [&] { open_either(rank_of("etcd://" + address + "/job", 0, 1), options_of(5s))->join({}); });
  EXPECT_NE(error.find("etcd at " + address + " rejected a request"), std::string::npos) << error;
}

TEST(EtcdTls, UntrustedCertificate) {
  const TimeLimit limit(60);
  const TempFolder folder;
  if (!EtcdServer::installed()) GTEST_SKIP() << "etcd is not installed: this is NOT tested";
  if (!make_certificates(folder.path())) GTEST_SKIP() << "Debian's openssl is not installed";
  const auto files = [&](const std::string& name, const std::string& ca) {
    return TlsFiles{folder / (name + ".pem"), folder / (name + ".key"), folder / (ca + ".pem")};
  };
  const EtcdServer server({"--cert-file", folder / "rank.pem", "--key-file", folder / "rank.key",
                           "--client-cert-auth", "--trusted-ca-file", folder / "ca.pem"});
  RendezvousOptions options = options_of(1s);
  for (const TlsFiles& wrong : {TlsFiles{}, files("stranger", "ca"), files("stranger", "other-ca"),
                                files("rank", "other-ca")}) {
    options.tls = wrong;
    const std::string error =
        error_of([&] { open_either(rank_of(server.url("job"), 0, 1), options)->join({}); });
    EXPECT_NE(error.find("was not reached"), std::string::npos) << error;
  }
  options.tls = files("rank", "ca");
  options.join_timeout = 20s;
  const auto errors = on_all(2, [&](int rank) {
    const auto mine = open_either(rank_of(server.url("job"), rank, 2), options);
    mine->join({});
    mine->put("told by " + std::to_string(rank), "");
    mine->get("told by " + std::to_string(1 - rank), 20s);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

}  // namespace
}  // namespace penstock::cluster
