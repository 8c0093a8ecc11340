// Processes that exit while connections are being made.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/cluster/certificates.h"
#include "tests/cluster/child.h"
#include "tests/support/files.h"
#include "tests/support/places.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::built;
using penstock::test::TempFolder;
using penstock::test::TimeLimit;

/// The system takes connections, and nobody ever says a word.
class Silent {
 public:
  Silent() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_, any, size), 0);
    EXPECT_EQ(::listen(socket_, 1024), 0);
    EXPECT_EQ(::getsockname(socket_, any, &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;
  ~Silent() { ::close(socket_); }
  const std::string& address() const noexcept { return address_; }

 private:
  const int socket_;
  std::string address_;
};

// OpenSSL frees what it has when a process exits, and gRPC's threads may still shake hands.
TEST(Exits, GoWellWhileHandsAreShaken) {
  const TimeLimit limit(120);
  const TempFolder folder;
  if (!test::make_certificates(folder.path())) GTEST_SKIP() << "openssl is not installed";
  const Silent silent;
  std::vector<std::unique_ptr<test::Child>> ranks;
  constexpr int kRanks = 24;
  for (int i = 0; i < kRanks; ++i)
    ranks.push_back(std::make_unique<test::Child>(
        std::vector<std::string>{built("cluster_victim"), "grpc://" + silent.address(), "1", "2",
                                 folder / "kept", folder / "log", "1",
                                 std::to_string(2000 + 37 * i), "lo", folder.path()},
        std::vector<std::string>{}, folder / ("out" + std::to_string(i))));
  const auto until = std::chrono::steady_clock::now() + 60s;
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->wait(until), 75) << rank->said();
    EXPECT_NE(rank->said().find("was not reached"), std::string::npos) << rank->said();
  }
}

}  // namespace
}  // namespace penstock::cluster
