// Links between runs and input workers: what arrives, and what is let go.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <penstock/rng.h>

#include "tests/cluster/free_address.h"
#include "tests/cluster/link_ways.h"
#include "tests/cluster/worker_peers.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::TimeLimit;
using test::echoes;
using test::Heard;
using test::LinkWay;
using test::message_of;

constexpr std::size_t kMost = WorkerLink::kMostBytesOfMessage;

std::string random_text(std::size_t bytes, std::uint64_t seed) {
  Rng rng(seed, 0, 0);
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; i += 64) text[i] = static_cast<char>(rng.below(256));
  return text;
}

bool expire(const std::vector<std::weak_ptr<const void>>& owners) {
  for (int tries = 0; tries < 2000; ++tries, std::this_thread::sleep_for(5ms))
    if (std::ranges::all_of(owners, [](const auto& owner) { return owner.expired(); })) return true;
  return false;
}

class WorkerLinks : public testing::TestWithParam<LinkWay> {
 protected:
  const LinkWay way_ = GetParam();
};

TEST_P(WorkerLinks, CarryMessagesOfAllSizesBothWaysInOrder) {
  const TimeLimit limit(60);
  const auto port = way_.listen(echoes());
  Heard heard;
  const auto link = way_.connect(port->address(), 5s, heard);
  std::vector<std::string> sent;
  std::vector<std::weak_ptr<const void>> owners;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{23}, std::size_t{4096}, std::size_t{4097},
        std::size_t{65'536}, std::size_t{1'000'003}, kMost / 2, kMost, std::size_t{5}}) {
    sent.push_back(random_text(bytes, bytes));
    WireBytes message = message_of(sent.back());
    owners.emplace_back(message.owner);
    link->send(std::move(message));
  }
  ASSERT_TRUE(heard.waits_messages(sent.size())) << heard.why();
  EXPECT_TRUE(heard.take() == sent);
  EXPECT_TRUE(expire(owners));
  EXPECT_EQ(heard.connected_times(), 1);
  EXPECT_EQ(heard.lost_times(), 0);
}

TEST_P(WorkerLinks, KeepTheOrderOfAThousandSmallMessages) {
  const TimeLimit limit(60);
  const auto port = way_.listen(echoes());
  Heard heard;
  const auto link = way_.connect(port->address(), 5s, heard);
  std::vector<std::string> sent;
  for (int i = 0; i < 1000; ++i) {
    sent.push_back("message " + std::to_string(i));
    link->send(message_of(sent.back()));
  }
  ASSERT_TRUE(heard.waits_messages(sent.size())) << heard.why();
  EXPECT_EQ(heard.take(), sent);
}

TEST_P(WorkerLinks, OfOneProcessToSeveralPortsDoNotMix) {
  const TimeLimit limit(60);
  constexpr int kPorts = 4;
  std::vector<std::unique_ptr<WorkerPort>> ports;
  std::vector<std::unique_ptr<Heard>> heard;
  std::vector<std::unique_ptr<WorkerLink>> links;
  for (int i = 0; i < 2 * kPorts; ++i) {
    if (i < kPorts) ports.push_back(way_.listen(echoes()));
    heard.push_back(std::make_unique<Heard>());
    links.push_back(
        way_.connect(ports[static_cast<std::size_t>(i % kPorts)]->address(), 5s, *heard.back()));
  }
  for (int n = 0; n < 20; ++n)
    for (std::size_t i = 0; i < links.size(); ++i)
      links[i]->send(message_of(std::string(100'000, static_cast<char>('a' + i))));
  for (std::size_t i = 0; i < links.size(); ++i) {
    ASSERT_TRUE(heard[i]->waits_messages(20)) << heard[i]->why();
    for (const std::string& message : heard[i]->take())
      EXPECT_TRUE(message == std::string(100'000, static_cast<char>('a' + i)));
  }
}

/// An owner's end, which may do anything: here, take a lock that its user holds while it sends, and
/// use the link.
TEST_P(WorkerLinks, LetOwnersGoWhereNobodyHoldsALock) {
  const TimeLimit limit(60);
  const auto port = way_.listen(echoes());
  Heard heard;
  const auto link = way_.connect(port->address(), 5s, heard);
  const std::string bytes(1 << 20, 'x');
  std::mutex of_user;
  std::atomic<int> let_go{0};
  constexpr int kCount = 50;
  for (int i = 0; i < kCount; ++i) {
    const std::lock_guard lock(of_user);
    const std::size_t size = i % 2 == 0 ? bytes.size() : 16;
    link->send({{std::as_bytes(std::span(bytes)).first(size)},
                std::shared_ptr<const void>(&bytes, [&](auto*) {
                  const std::lock_guard inner(of_user);
                  link->send(message_of("let go"));
                  ++let_go;
                })});
  }
  ASSERT_TRUE(heard.waits_messages(2 * kCount)) << heard.why();
  EXPECT_EQ(let_go, kCount);
}

TEST_P(WorkerLinks, LetOwnersGoThatAreNotSent) {
  const TimeLimit limit(60);
  const std::string address = penstock::test::free_address();
  std::vector<std::weak_ptr<const void>> owners;
  const auto send = [&owners](WorkerLink& link) {
    WireBytes message = message_of(std::string(8 << 20, 'x'));
    owners.emplace_back(message.owner);
    link.send(std::move(message));
  };
  {
    Heard heard;
    const auto link = way_.connect(address, 5s, heard);  // no worker listens
    if (link != nullptr) {
      send(*link);
      ASSERT_TRUE(heard.waits_lost());
      send(*link);
      EXPECT_TRUE(expire(owners));
    }
  }
  {
    const auto port = way_.listen_at(address, echoes());
    Heard heard;
    const auto link = way_.connect(address, 5s, heard);
    for (int i = 0; i < 20; ++i) send(*link);
    link->close();
    send(*link);
    ASSERT_TRUE(heard.waits_lost());
    EXPECT_EQ(heard.lost_times(), 1);
  }
  EXPECT_TRUE(expire(owners));
}

TEST_P(WorkerLinks, SendNothingBeyondTheLimit) {
  const TimeLimit limit(60);
  const auto port = way_.listen(echoes());
  Heard heard;
  const auto link = way_.connect(port->address(), 5s, heard);
  ASSERT_TRUE(heard.waits_connected());
  const std::string bytes(kMost + 1, 'x');
  link->send({{std::as_bytes(std::span(bytes))}, nullptr});
  ASSERT_TRUE(heard.waits_lost());
  EXPECT_EQ(heard.code(), ErrorCode::unavailable);
  EXPECT_NE(heard.why().find("more than 64 MiB"), std::string::npos) << heard.why();
}

/// Whoever keeps what was received keeps its bytes.
TEST_P(WorkerLinks, ReceiveWhatStandsAsLongAsItsOwner) {
  const TimeLimit limit(60);
  struct Keeper final : LinkListener {
    void received(WireBytes message) noexcept override {
      const std::lock_guard lock(mutex);
      kept.push_back(std::move(message));
      changed.notify_all();
    }
    void lost(const Status& /*why*/) noexcept override {}
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<WireBytes> kept;
  };
  Keeper keeper;
  std::vector<std::string> sent;
  {
    const auto port = way_.listen(echoes());
    const auto link = way_.connect(port->address(), 5s, keeper);
    for (std::size_t i = 0; i < 40; ++i) {
      sent.push_back(random_text(i % 2 == 0 ? i : i * 100'000, i));
      link->send(message_of(sent.back()));
    }
    std::unique_lock lock(keeper.mutex);
    ASSERT_TRUE(keeper.changed.wait_for(lock, 20s, [&] { return keeper.kept.size() == 40; }));
  }
  for (std::size_t i = 0; i < sent.size(); ++i)
    EXPECT_TRUE(test::text_of(keeper.kept[i]) == sent[i]);
}

INSTANTIATE_TEST_SUITE_P(Ways, WorkerLinks, testing::ValuesIn(test::kLinkWays),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace penstock::cluster
