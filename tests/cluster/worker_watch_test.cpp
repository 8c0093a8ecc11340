// Workers' addresses in a real etcd: who appears, and who is gone.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>

#include "cluster/net/etcd_client.h"
#include "cluster/net/etcd_txn.h"
#include "cluster/net/worker_transport.h"
#include "tests/cluster/certificates.h"
#include "tests/cluster/etcd_server.h"
#include "tests/cluster/ranks.h"
#include "tests/support/files.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::EtcdServer;
using penstock::test::free_address;
using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using test::error_of;
using Addresses = std::vector<std::string>;

/// What a watch has told.
class Told {
 public:
  auto watcher() {
    return [this](const Addresses& now) {
      const std::lock_guard lock(mutex_);
      now_ = now;
      ++times_;
      changed_.notify_all();
    };
  }
  bool waits(const Addresses& what, std::chrono::milliseconds most = 20s) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return now_ == what; });
  }
  int times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }
  std::optional<Addresses> now() {
    const std::lock_guard lock(mutex_);
    return now_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Addresses> now_;
  int times_ = 0;
};

class WorkersInEtcd : public testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdServer::installed())
      GTEST_SKIP() << "etcd is not installed (tools/setup.sh --checks): this is NOT tested";
    server_ = std::make_unique<EtcdServer>();
  }
  std::string url(const std::string& folder = "vision/workers") const {
    return server_->url(folder);
  }
  std::unique_ptr<EtcdServer> server_;
};

TEST_F(WorkersInEtcd, AppearAndGo) {
  const TimeLimit limit(60);
  Told told, other;
  const auto watch = watch_workers(url(), {}, told.watcher());
  const auto elsewhere = watch_workers(url("vision/worker"), {}, other.watcher());
  ASSERT_TRUE(told.waits({}));
  auto one = announce_worker(url(), {}, 5s, "10.0.0.1:70");
  ASSERT_TRUE(told.waits({"10.0.0.1:70"}));
  const auto two = announce_worker(url(), {}, 5s, "host:71");
  ASSERT_TRUE(told.waits({"10.0.0.1:70", "host:71"}));
  one.reset();
  ASSERT_TRUE(told.waits({"host:71"}, 4s));  // at once, and not with its lease
  EXPECT_EQ(other.now(), Addresses());
  EXPECT_EQ(other.times(), 1);
  Told late;
  const auto again = watch_workers(url(), {}, late.watcher());
  ASSERT_TRUE(late.waits({"host:71"}));
  EXPECT_EQ(late.times(), 1);
}

TEST_F(WorkersInEtcd, MayBeWrittenByAnybody) {
  const TimeLimit limit(60);
  Told told;
  const auto watch = watch_workers(url(), {}, told.watcher());
  ASSERT_TRUE(told.waits({}));
  EtcdClient client({server_->address()}, {}, 2s);
  EtcdTxn txn;
  for (const char* name : {"a", "b", "c"})
    txn.put(std::string("/vision/workers/") + name, name == std::string("c") ? "" : "host:1", 0);
  txn.put("/vision/workersx/d", "host:2", 0);
  etcdserverpb::TxnResponse reply;
  ASSERT_TRUE(client.txn(txn.request(), reply).ok());
  ASSERT_TRUE(told.waits({"host:1"}));
}

TEST_F(WorkersInEtcd, AreKnownWhileEtcdIsAway) {
  const TimeLimit limit(90);
  Told told;
  const auto watch = watch_workers(url(), {}, told.watcher());
  auto one = announce_worker(url(), {}, 5s, "one:1");
  ASSERT_TRUE(told.waits({"one:1"}));
  server_->end();
  std::this_thread::sleep_for(1500ms);
  EXPECT_EQ(told.now(), Addresses{"one:1"});
  server_->start();
  const auto two = announce_worker(url(), {}, 5s, "two:2");
  ASSERT_TRUE(told.waits({"one:1", "two:2"}));
  one.reset();
  ASSERT_TRUE(told.waits({"two:2"}));
}

TEST_F(WorkersInEtcd, ComeBackBehindALeaseThatEnded) {
  const TimeLimit limit(60);
  Told told;
  const auto watch = watch_workers(url(), {}, told.watcher());
  const auto one = announce_worker(url(), {}, 1s, "one:1");
  ASSERT_TRUE(told.waits({"one:1"}));
  EtcdClient client({server_->address()}, {}, 2s);
  etcdserverpb::RangeRequest request;
  request.set_key("/vision/workers/one:1");
  etcdserverpb::RangeResponse reply;
  ASSERT_TRUE(client.range(request, reply).ok());
  ASSERT_EQ(reply.kvs_size(), 1);
  ASSERT_TRUE(client.revoke(reply.kvs(0).lease()).ok());
  ASSERT_TRUE(told.waits({}));
  ASSERT_TRUE(told.waits({"one:1"}));
}

TEST_F(WorkersInEtcd, AreFollowedAtAnotherMemberIfOneIsFrozen) {
  const TimeLimit limit(90);
  // One etcd behind two addresses would do; two that know nothing of each other show more.
  const EtcdServer second;
  const std::string both =
      "etcd://" + server_->address() + "," + second.address() + "/vision/workers";
  const auto there = announce_worker(second.url("vision/workers"), {}, 5s, "second:2");
  Told told;
  const auto watch = watch_workers(both, {}, told.watcher());
  ASSERT_TRUE(told.waits({}));
  server_->signal(SIGSTOP);
  EXPECT_TRUE(told.waits({"second:2"}, 30s));
  server_->signal(SIGCONT);
}

TEST_F(WorkersInEtcd, EndWithTheirWatchWhateverEtcdDoes) {
  const TimeLimit limit(60);
  Told told;
  auto watch = watch_workers(url(), {}, told.watcher());
  auto one = announce_worker(url(), {}, 5s, "one:1");
  ASSERT_TRUE(told.waits({"one:1"}));
  server_->signal(SIGSTOP);
  const auto before = std::chrono::steady_clock::now();
  watch.reset();
  one.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
  server_->signal(SIGCONT);
}

TEST(WorkersNowhere, InvalidFolders) {
  const auto refused = [](const std::string& url, const WorkerSecurity& security = {}) {
    return error_of([&] { static_cast<void>(watch_workers(url, security, [](const auto&) {})); });
  };
  EXPECT_NE(refused("grpc://127.0.0.1:1/a").find("etcd://"), std::string::npos);
  for (const char* folder : {"", "/", "/a/", "//a", "/a//b", "/a b"})
    EXPECT_NE(refused(std::string("etcd://127.0.0.1:1") + folder).find("folder"), std::string::npos)
        << folder;
  EXPECT_NE(refused("etcd://127.0.0.1/a").find("HOST:PORT"), std::string::npos);
  EXPECT_NE(refused("etcd://10.0.0.1:2379/a").find("--tls-cert"), std::string::npos);
  EXPECT_NE(refused("etcd://127.0.0.1:1/a", {"no", "no", "no", ""}).find("can't read the TLS"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              static_cast<void>(announce_worker("etcd://127.0.0.1:1/a", {}, 1s, "nowhere"));
            }).find("HOST:PORT"),
            std::string::npos);
}

TEST(WorkersNowhere, UnreachableEtcd) {
  const TimeLimit limit(60);
  Told told;
  const std::string url = "etcd://" + free_address() + "/a";
  {
    const auto watch = watch_workers(url, {}, told.watcher());
    const auto one = announce_worker(url, {}, 1s, "one:1");
    std::this_thread::sleep_for(500ms);
  }
  EXPECT_EQ(told.times(), 0);
}

}  // namespace
}  // namespace penstock::cluster
