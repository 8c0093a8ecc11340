// How links between runs and input workers end: killed, frozen, cut off, closed, or in traffic.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "cluster/net/worker_transport.h"
#include "tests/cluster/free_address.h"
#include "tests/cluster/link_ways.h"
#include "tests/cluster/proxy.h"
#include "tests/cluster/worker_peers.h"
#include "tests/support/places.h"
#include "tests/support/process.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using penstock::test::built;
using penstock::test::free_address;
using penstock::test::Process;
using penstock::test::TimeLimit;
using test::echoes;
using test::Heard;
using test::message_of;
using test::Proxy;

/// Beyond a timeout: until a test's thread gets its turn on a busy machine.
constexpr auto kSlack = 1500ms;

/// Tries until somebody listens.
std::unique_ptr<WorkerLink> connect_in_time(const std::string& address,
                                            std::chrono::milliseconds timeout,
                                            std::unique_ptr<Heard>& heard,
                                            const test::LinkWay& way = test::kLinkWays[0]) {
  for (int tries = 0; tries < 400; ++tries, std::this_thread::sleep_for(25ms)) {
    heard = std::make_unique<Heard>();
    auto link = way.connect(address, timeout, *heard);
    if (link != nullptr && heard->waits_connected()) return link;
  }
  throw std::runtime_error("nobody listens at " + address);
}

/// Keeps messages on their way, until it is lost.
class Flood final : public Heard {
 public:
  explicit Flood(WorkerLink& link) : link_(link) {
    link_.admit();
    for (int i = 0; i < 4; ++i) link_.send(message_of(std::string(3'000'000, 'f')));
  }
  void received(WireBytes message) noexcept override {
    ++count;
    link_.send(std::move(message));
  }
  std::atomic<int> count{0};

 private:
  WorkerLink& link_;
};

struct End {
  const char* name;
  int signal;
  bool traffic;
  bool local = false;
};

class WorkerEnds : public testing::TestWithParam<End> {};

TEST_P(WorkerEnds, OfAWorkersProcessAreHeardOnceAndInTime) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  const bool local = GetParam().local;
  const Process worker(
      {built("cluster_worker_peer"), local ? "listen-locally" : "listen", address});
  constexpr auto kTimeout = 1000ms;
  std::unique_ptr<Heard> heard;
  const auto link = connect_in_time(address, kTimeout, heard, test::kLinkWays[local ? 1 : 0]);
  if (GetParam().traffic)
    for (int i = 0; i < 30; ++i) link->send(message_of(std::string(8 << 20, 'x')));
  else
    link->send(message_of("x"));
  ASSERT_TRUE(heard->waits_messages(1));
  const auto before = Clock::now();
  worker.signal(GetParam().signal);
  ASSERT_TRUE(heard->waits_lost(kTimeout + kSlack));
  EXPECT_LT(heard->when_lost() - before, kTimeout + kSlack);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(heard->lost_times(), 1);
  EXPECT_EQ(heard->late(), 0);
  EXPECT_EQ(heard->code(), ErrorCode::unavailable);
  EXPECT_NE(heard->why().find(address), std::string::npos) << heard->why();
}

INSTANTIATE_TEST_SUITE_P(Signals, WorkerEnds,
                         testing::Values(End{"killed", SIGKILL, false},
                                         End{"killed_in_traffic", SIGKILL, true},
                                         End{"frozen", SIGSTOP, false},
                                         End{"frozen_in_traffic", SIGSTOP, true},
                                         End{"killed_locally", SIGKILL, false, true},
                                         End{"killed_in_local_traffic", SIGKILL, true, true},
                                         End{"frozen_locally", SIGSTOP, false, true},
                                         End{"frozen_in_local_traffic", SIGSTOP, true, true}),
                         [](const auto& end) { return end.param.name; });

/// A worker waits for a frozen run as long as for any: see WorkerOptions.
TEST(WorkerEnds, OfARunsProcessAreHeardByTheWorker) {
  const TimeLimit limit(60);
  for (const int signal : {SIGKILL, SIGSTOP}) {
    std::shared_ptr<Flood> flood;
    std::atomic<bool> there{false};
    const auto port = listen_for_runs("127.0.0.1:0", {}, [&](WorkerLink& link) {
      flood = std::make_shared<Flood>(link);
      there = true;
      return flood;
    });
    const Process run({built("cluster_worker_peer"), "connect", port->address()});
    for (int tries = 0; tries < 2000 && (!there || flood->count == 0); ++tries)
      std::this_thread::sleep_for(10ms);
    ASSERT_GT(flood->count, 0);
    run.signal(signal);
    ASSERT_TRUE(flood->waits_lost(WorkerOptions{}.timeout + kSlack)) << signal;
    EXPECT_EQ(flood->lost_times(), 1);
    EXPECT_EQ(flood->code(), ErrorCode::unavailable);
  }
}

TEST(WorkerEnds, StalledConnection) {
  const TimeLimit limit(60);
  const auto port = listen_for_runs("127.0.0.1:0", {}, echoes());
  Proxy proxy(port->address());
  Heard heard;
  const auto link = connect_to_worker(proxy.address(), {}, 1s, heard);
  for (int i = 0; i < 20; ++i) link->send(message_of(std::string(1 << 20, 'x')));
  ASSERT_TRUE(heard.waits_messages(2));
  const auto before = Clock::now();
  proxy.freeze_after(1 << 20);
  ASSERT_TRUE(heard.waits_lost());
  EXPECT_LT(heard.when_lost() - before, 1s + kSlack);
}

class EndsOfEachWay : public testing::TestWithParam<test::LinkWay> {};

TEST_P(EndsOfEachWay, InOrderAreHeardByBothSides) {
  const TimeLimit limit(60);
  const auto accepted = std::make_shared<Heard>();
  WorkerLink* of_worker = nullptr;
  const AcceptLink accept = [&](WorkerLink& link) {
    of_worker = &link;
    link.send(message_of("hello"));
    return accepted;
  };
  struct {
    const char* name;
    std::function<void(std::unique_ptr<WorkerPort>&, std::unique_ptr<WorkerLink>&)> end;
  } const kWays[] = {
      {"the worker closes the link", [&](auto&, auto&) { of_worker->close(); }},
      {"the run closes the link", [](auto&, auto& link) { link->close(); }},
      {"the port goes", [](auto& port, auto&) { port.reset(); }},
  };
  int times = 0;
  for (const auto& way : kWays) {
    SCOPED_TRACE(way.name);
    auto port = GetParam().listen(accept);
    Heard heard;
    auto link = GetParam().connect(port->address(), 5s, heard);
    ASSERT_TRUE(heard.waits_messages(1)) << heard.why();
    EXPECT_EQ(heard.take(), std::vector<std::string>{"hello"});
    way.end(port, link);
    ASSERT_TRUE(heard.waits_lost(2s));
    for (int tries = 0; tries < 200 && accepted->lost_times() <= times; ++tries)
      std::this_thread::sleep_for(10ms);
    EXPECT_EQ(accepted->lost_times(), ++times);
    EXPECT_EQ(heard.code(), ErrorCode::unavailable);
    port.reset();
    link.reset();
    EXPECT_EQ(heard.lost_times(), 1);
  }
}

TEST_P(EndsOfEachWay, MayBeAskedForWithinACallOfTheListener) {
  const TimeLimit limit(60);
  struct Closer final : Heard {
    void received(WireBytes message) noexcept override {
      link.load()->close();
      Heard::received(std::move(message));
    }
    std::atomic<WorkerLink*> link{nullptr};
  };
  const auto port = GetParam().listen(echoes());
  Closer closer;
  const auto link = GetParam().connect(port->address(), 5s, closer);
  closer.link = link.get();
  for (int i = 0; i < 100; ++i) link->send(message_of("x"));
  ASSERT_TRUE(closer.waits_lost());
  EXPECT_EQ(closer.take().size(), 1U);
}

TEST_P(EndsOfEachWay, InTrafficLeaveNothingBehind) {
  const TimeLimit limit(90);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::shared_ptr<Flood>> floods;
    auto port = GetParam().listen(
        [&](WorkerLink& link) { return floods.emplace_back(std::make_shared<Flood>(link)); });
    auto heard = std::make_unique<Heard>();
    auto link = GetParam().connect(port->address(), 5s, *heard);
    for (int i = 0; i < 4; ++i) link->send(message_of(std::string(1'000'000, 'x')));
    if (round % 3 > 0) {
      ASSERT_TRUE(heard->waits_messages(1));
    }
    std::jthread sends;
    if (round % 2 == 0) {
      link.reset();
      heard.reset();  // nobody calls it any more
      port.reset();
    } else {
      sends = std::jthread([&] {
        for (int i = 0; i < 50; ++i) link->send(message_of(std::string(100'000, 'y')));
      });
      port.reset();
      sends.join();
      ASSERT_TRUE(heard->waits_lost());
      link.reset();
      EXPECT_EQ(heard->lost_times(), 1);
    }
    for (const auto& flood : floods) {
      EXPECT_EQ(flood->lost_times(), 1);
      EXPECT_EQ(flood.use_count(), 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, EndsOfEachWay, testing::ValuesIn(test::kLinkWays),
                         [](const auto& one) { return one.param.name; });

/// As while it decodes on all cores: nothing is lost that answers gRPC.
TEST(WorkerEnds, DoNotComeBecauseALinkIsSilentOrItsListenerSlow) {
  const TimeLimit limit(60);
  struct Slow final : test::Echo {
    using Echo::Echo;
    void received(WireBytes message) noexcept override {
      std::this_thread::sleep_for(2500ms);
      Echo::received(std::move(message));
    }
  };
  const auto port = listen_for_runs("127.0.0.1:0", {},
                                    [](WorkerLink& link) { return std::make_shared<Slow>(link); });
  Heard heard;
  const auto link = connect_to_worker(port->address(), {}, 1s, heard);
  for (int i = 0; i < 2; ++i) {
    link->send(message_of("x"));
    ASSERT_TRUE(heard.waits_messages(1)) << heard.why();
    EXPECT_EQ(heard.take().size(), 1U);
  }
  EXPECT_EQ(heard.lost_times(), 0);
}

TEST(WorkerEnds, ComeInTimeWhereNobodyAnswers) {
  const TimeLimit limit(60);
  {
    Heard heard;
    const auto link = connect_to_worker(free_address(), {}, 5s, heard);
    ASSERT_TRUE(heard.waits_lost(4s));  // at once
    EXPECT_NE(heard.why().find("was not reached"), std::string::npos) << heard.why();
    EXPECT_EQ(heard.code(), ErrorCode::unavailable);
  }
  boost::asio::io_context context;
  boost::asio::ip::tcp::acceptor silent(context, {boost::asio::ip::address_v4::loopback(), 0});
  const std::string address = "127.0.0.1:" + std::to_string(silent.local_endpoint().port());
  Heard heard;
  const auto before = Clock::now();
  const auto link = connect_to_worker(address, {}, 700ms, heard);
  ASSERT_TRUE(heard.waits_lost());
  EXPECT_LT(heard.when_lost() - before, 700ms + kSlack);
  EXPECT_EQ(heard.code(), ErrorCode::unavailable);
  EXPECT_EQ(heard.connected_times(), 0);
}

TEST(WorkerEnds, OfAPortAreFollowedByAnother) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  for (int round = 0; round < 5; ++round) {
    auto port = listen_for_runs(address, {}, echoes());
    EXPECT_EQ(port->address(), address);
    EXPECT_THROW(static_cast<void>(listen_for_runs(address, {}, echoes())), Error);
    std::unique_ptr<Heard> heard;
    const auto link = connect_in_time(address, 2s, heard);
    link->send(message_of("round " + std::to_string(round)));
    ASSERT_TRUE(heard->waits_messages(1));
    EXPECT_EQ(heard->take().front(), "round " + std::to_string(round));
    port.reset();
    ASSERT_TRUE(heard->waits_lost());
  }
}

}  // namespace
}  // namespace penstock::cluster
