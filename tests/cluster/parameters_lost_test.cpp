// Parameter servers that are lost, slow, cut off or lied to, and strangers.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <penstock/rng.h>

#include "cluster/net/open.h"
#include "tests/cluster/certificates.h"
#include "tests/cluster/held_server.h"
#include "tests/cluster/proxy.h"
#include "tests/cluster/ranks.h"
#include "tests/support/files.h"
#include "tests/support/time_limit.h"
#include "towers/servers/pulse.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using test::error_of;
using test::free_address;
using test::HeldServer;
using test::Proxy;
using test::Taken;

constexpr std::size_t kCount = 6'000'000;
const towers::Trainee kMe{.process = 1, .incarnation = "me"};

RendezvousOptions impatient() {
  RendezvousOptions options = test::options_of(2s);
  options.peer_timeout = 1s;
  return options;
}

towers::Beginning one_variable() {
  return {.run = "run", .variables = {{.number = 0, .shape = {kCount / 10, 10}}}};
}

TEST(LostParameters, AreNamedInTime) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  HeldServer held;
  auto service = serve_by_grpc(held, address, impatient(), {});
  const auto client = open_by_grpc("ps 1", address, impatient());
  client->begin(one_variable(), kMe);
  const std::string lost = "ps 1 at " + address + " was lost: no answer for 1000 ms";
  std::jthread waits([&] {
    std::uint64_t step = 0;
    bool finished = false;
    EXPECT_EQ(error_of([&] { client->take(kMe, 0, 50s, step, finished); }), lost);
  });
  std::this_thread::sleep_for(200ms);
  service.reset();
  const auto before = Clock::now();
  EXPECT_EQ(error_of([&] { client->keep("run"); }), lost);
  EXPECT_LT(Clock::now() - before, 10s);
  waits.join();
}

TEST(LostParameters, UnreachableServer) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  const auto client = open_by_grpc("ps 0", address, impatient());
  const std::string error = error_of([&] { client->begin(one_variable(), kMe); });
  EXPECT_EQ(error.find("ps 0 at " + address + " was not reached in 2000 ms: "), 0U) << error;
  EXPECT_NE(error_of([&] { client->enter(kMe, {}, 300ms); }).find("was not reached in"),
            std::string::npos);
}

// The chief found them all before they speak to each other: a server that waits for one that died
// before its first update would keep its workers waiting.
TEST(LostParameters, AreNotWaitedForByOtherServers) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  RendezvousOptions options = impatient();
  options.join_timeout = 50s;
  const auto client = open_by_grpc("ps 1", address, options);
  const std::string start = "ps 1 at " + address + " was not reached in 1000 ms: ";
  const towers::Update update{1, {{0, 1, 4}}, 1};
  EXPECT_EQ(error_of([&] { client->norms("run", update); }).find(start), 0U);
  EXPECT_EQ(error_of([&] { client->apply("run", update); }).find(start), 0U);
  EXPECT_EQ(error_of([&] { client->keep_here("run"); }).find(start), 0U);
}

TEST(LostParameters, LateServer) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  RendezvousOptions options = impatient();
  options.join_timeout = 30s;
  HeldServer held;
  std::unique_ptr<ServedParameters> service;
  std::jthread later([&] {
    std::this_thread::sleep_for(1500ms);
    service = serve_by_grpc(held, address, options, {});
  });
  const auto client = open_by_grpc("ps 0", address, options);
  client->begin(one_variable(), kMe);
  later.join();
  EXPECT_EQ(held.begun.run, "run");
}

TEST(LostParameters, BrokenConnection) {
  const TimeLimit limit(100);
  const std::string address = free_address();
  HeldServer held;
  const auto service = serve_by_grpc(held, address, test::options_of(), {});
  Proxy proxy(address);
  const auto client = open_by_grpc("ps 0", proxy.address(), test::options_of());
  client->begin(one_variable(), kMe);
  const std::vector<float> ones(kCount, 1);
  // On the way there, and on the way back.
  std::uint64_t number = 0;
  for (const std::size_t bytes : {std::size_t{1'000'000}, std::size_t{20'000'000},
                                  std::size_t{25'000'000}, std::size_t{40'000'000}}) {
    proxy.cut_after(bytes);
    Taken taken;
    client->push(kMe, {.number = ++number, .pieces = {{0, ones.data(), kCount}}}, taken);
    EXPECT_TRUE(proxy.was_cut());
    EXPECT_EQ(taken.asked[0], 1);
    EXPECT_EQ(taken.values[0], std::vector<float>(kCount, static_cast<float>(number)));
  }
}

TEST(LostParameters, StalledReceiver) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  HeldServer held;
  const auto service = serve_by_grpc(held, address, impatient(), {});
  Proxy proxy(address);
  const auto client = open_by_grpc("ps 0", proxy.address(), impatient());
  client->begin(one_variable(), kMe);
  std::vector<float> ones(kCount, 1);
  proxy.freeze_after(3'000'000);
  const auto before = Clock::now();
  Taken taken;
  const std::string error = error_of([&] {
    client->push(kMe, {.number = 1, .pieces = {{0, ones.data(), kCount}}}, taken);
  });
  EXPECT_NE(error.find("ps 0 at " + proxy.address() + " was lost"), std::string::npos) << error;
  EXPECT_LT(Clock::now() - before, 20s);
  ones = {};
}

TEST(LostParameters, SignsOfLife) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  HeldServer held;
  std::atomic<int> looks{0};
  const auto service = serve_by_grpc(held, address, impatient(), [&] { ++looks; });
  const std::shared_ptr<towers::ParameterServer> client =
      open_by_grpc("ps 0", address, impatient());
  client->begin(one_variable(), kMe);
  {
    towers::Pulse pulse(kMe, 50ms, [](const Status& why) { FAIL() << why.error().what(); });
    pulse.add(client);
    for (int tries = 0; tries < 500 && (held.beats_of(1) < 4 || looks < 4); ++tries)
      std::this_thread::sleep_for(10ms);
  }
  EXPECT_GE(looks, 4);
  const int beats = held.beats_of(1);
  EXPECT_GE(beats, 4);
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(held.beats_of(1), beats) << "of one that is gone";
  EXPECT_TRUE(client->loss().ok());
}

/// What others ended is told apart from what is wrong with a question.
TEST(LostParameters, RememberedLoss) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  HeldServer held;
  auto service = serve_by_grpc(held, address, impatient(), {});
  const auto client = open_by_grpc("ps 1", address, impatient());
  client->begin(one_variable(), kMe);
  const float one = 1;
  Taken taken;
  EXPECT_NE(error_of([&] {
              client->push(kMe, {.number = 1, .pieces = {{7, &one, 1}}}, taken);
            }),
            "");
  EXPECT_TRUE(client->loss().ok());
  service.reset();
  const std::string lost = error_of([&] { client->keep("run"); });
  ASSERT_FALSE(client->loss().ok());
  EXPECT_EQ(std::string(client->loss().error().what()), lost);
}

TEST(LostParameters, InvalidPushes) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  HeldServer held;
  const auto service = serve_by_grpc(held, address, test::options_of(), {});
  const auto client = open_by_grpc("ps 0", address, test::options_of());
  const std::vector<float> ones(kCount + 1, 1);
  const auto push = [&](std::vector<towers::Piece> pieces) {
    Taken taken;
    return error_of([&] { client->push(kMe, {.number = 1, .pieces = pieces}, taken); });
  };
  EXPECT_NE(push({{0, ones.data(), 1}}).find("variable 0, which it does not hold"),
            std::string::npos);
  client->begin(one_variable(), kMe);
  const std::vector<std::vector<std::int64_t>> odd{
      {1, 1}, {2, 1}, {-1}, {kCount / 10}, {std::int64_t{1} << 62}};
  for (const std::vector<std::int64_t>& rows : odd)
    EXPECT_NE(push({{0, ones.data(), rows.size() * 10, rows.data(), rows.size()}})
                  .find("a parameter server was asked for row"),
              std::string::npos);
  const std::int64_t row = 5;
  EXPECT_NE(push({{0, ones.data(), 11, &row, 1}}).find("11 values in 1 rows of variable 0"),
            std::string::npos);
  EXPECT_NE(push({{0, ones.data(), kCount + 1}}).find("6000001 values in 0 rows"),
            std::string::npos);
  EXPECT_NE(push({{0, ones.data(), kCount}, {0, ones.data(), kCount}}).find("twice"),
            std::string::npos);
  EXPECT_NE(push({{7, ones.data(), 1}}).find("variable 7"), std::string::npos);
  EXPECT_EQ(held.step, 0U);
  EXPECT_EQ(push({{0, ones.data(), kCount}}), "");
  EXPECT_EQ(held.values[0].back(), 1);
}

TEST(StrangersToParameters, BeyondLoopback) {
  HeldServer held;
  RendezvousOptions options = test::options_of();
  EXPECT_NE(error_of([&] { serve_by_grpc(held, "0.0.0.0:1", options, {}); }).find("--tls-cert"),
            std::string::npos);
  EXPECT_NE(error_of([&] { open_by_grpc("ps 0", "10.0.0.1:1", options); }).find("--tls-cert"),
            std::string::npos);
  options.tls = {"cert", "key", "ca"};
  EXPECT_NE(error_of([&] { serve_by_grpc(held, "0.0.0.0:1", options, {}); }).find("token"),
            std::string::npos);
}

TEST(StrangersToParameters, AreRefusedAndCounted) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  HeldServer held;
  RendezvousOptions options = impatient();
  options.token = "the job's";
  const auto service = serve_by_grpc(held, address, options, {});
  for (const char* token : {"", "another job's", "the job'S"}) {
    RendezvousOptions wrong = options;
    wrong.token = token;
    EXPECT_NE(error_of([&] {
                open_by_grpc("ps 0", address, wrong)->begin(one_variable(), kMe);
              }).find("refused this process: not this job's token"),
              std::string::npos);
  }
  EXPECT_EQ(service->refused(), 3U);
  EXPECT_EQ(service->received(), 0U);
  Rng rng(1, 0, 0);
  const auto port = static_cast<unsigned short>(std::stoi(address.substr(address.find(':') + 1)));
  for (int i = 0; i < 50; ++i) {
    boost::asio::io_context context;
    boost::asio::ip::tcp::socket socket(context);
    socket.connect({boost::asio::ip::address_v4::loopback(), port});
    std::string junk = i % 2 == 0 ? "" : "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for (std::uint64_t n = rng.below(5000); n > 0; --n)
      junk.push_back(static_cast<char>(rng.below(256)));
    boost::system::error_code ignored;
    boost::asio::write(socket, boost::asio::buffer(junk), ignored);
  }
  EXPECT_EQ(held.begun.run, "");
  const auto client = open_by_grpc("ps 0", address, options);
  client->begin(one_variable(), kMe);
  EXPECT_EQ(held.begun.run, "run");
}

TEST(StrangersToParameters, WithTheWrongCertificateOrNoneReachNothing) {
  const TimeLimit limit(60);
  const TempFolder folder;
  if (!test::make_certificates(folder.path())) GTEST_SKIP() << "Debian's openssl is not installed";
  const auto files = [&](const std::string& name, const std::string& ca) {
    return TlsFiles{folder / (name + ".pem"), folder / (name + ".key"), folder / (ca + ".pem")};
  };
  const std::string address = free_address();
  RendezvousOptions options = impatient();
  options.token = "t";
  options.tls = files("rank", "ca");
  HeldServer held;
  const auto service = serve_by_grpc(held, address, options, {});
  for (const TlsFiles& tls : {TlsFiles{}, files("stranger", "ca"), files("rank", "other-ca")}) {
    RendezvousOptions wrong = options;
    wrong.tls = tls;
    EXPECT_NE(error_of([&] {
                open_by_grpc("ps 0", address, wrong)->begin(one_variable(), kMe);
              }).find("was not reached"),
              std::string::npos);
  }
  EXPECT_EQ(held.begun.run, "");
  open_by_grpc("ps 0", address, options)->begin(one_variable(), kMe);
  EXPECT_EQ(held.begun.run, "run");
}

}  // namespace
}  // namespace penstock::cluster
