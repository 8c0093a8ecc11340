// Strangers to a job: they are refused and counted, and the job continues.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <penstock/rng.h>

#include "cluster/net/open.h"
#include "tests/cluster/certificates.h"
#include "tests/cluster/ranks.h"
#include "tests/support/files.h"
#include "tests/support/free_port.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::TimeLimit;
using test::error_of;
using test::free_address;
using test::make_certificates;
using test::on_all;
using test::options_of;
using test::rank_of;

TEST(Strangers, BeyondLoopback) {
  RendezvousOptions options = options_of();
  EXPECT_NE(error_of([&] { open_grpc(rank_of("0.0.0.0:1", 0, 2), options); }).find("--tls-cert"),
            std::string::npos);
  options.tls = {"cert", "key", "ca"};
  EXPECT_NE(error_of([&] { open_grpc(rank_of("10.0.0.1:1", 0, 2), options); }).find("token"),
            std::string::npos);
  options.token = "t";
  EXPECT_NE(
      error_of([&] { open_grpc(rank_of("10.0.0.1:1", 0, 2), options); }).find("can't read the TLS"),
      std::string::npos);
  options.tls.key.clear();
  EXPECT_NE(error_of([&] { open_grpc(rank_of("127.0.0.1:1", 0, 2), options); }).find("all three"),
            std::string::npos);
}

// Without a token, a process of another user could come as a rank.
TEST(Strangers, OfOtherUsersAreCutOff) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may be another user";
  const TimeLimit limit(60);
  const std::string address = free_address();
  RendezvousOptions options = options_of(2s);
  const auto port = std::stoi(address.substr(address.find(':') + 1));
  for (const char* token : {"", "the job's"}) {
    options.token = token;
    const auto chief = open_grpc(rank_of(address, 0, 2), options);
    const pid_t stranger = ::fork();
    if (stranger == 0) {                         // only system calls
      const bool other = ::setuid(12'345) == 0;  // the user of sockets from now on
      const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
      const sockaddr_in at = penstock::test::loopback(port);
      const char greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
      char answer = 0;
      if (!other || ::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
        ::_exit(2);
      (void)!::send(fd, greeting, sizeof greeting - 1, MSG_NOSIGNAL);
      ::_exit(::recv(fd, &answer, 1, 0) > 0 ? 1 : 0);
    }
    int status = -1;
    ::waitpid(stranger, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), *token == 0 ? 0 : 1) << "whether it was heard";
    const auto errors = on_all(2, [&](int rank) {
      if (rank == 0) return chief->join({});
      open_grpc(rank_of(address, 1, 2), options)->join({});
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  }
}

TEST(Strangers, AreRefusedAndCounted) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  RendezvousOptions options = options_of(2s);
  options.token = "the job's";
  const auto chief = open_grpc(rank_of(address, 0, 2), options);
  for (const char* token : {"", "another job's", "the job'S"}) {
    RendezvousOptions wrong = options;
    wrong.token = token;
    EXPECT_NE(error_of([&] {
                open_grpc(rank_of(address, 1, 2), wrong)->join({});
              }).find("refused this process: not this job's token"),
              std::string::npos);
  }
  EXPECT_EQ(chief->refused(), 3U);
  // Random bytes, and connections that say nothing.
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
  const auto errors = on_all(2, [&](int rank) {
    if (rank == 0) return chief->join({});
    open_grpc(rank_of(address, 1, 2), options)->join({});
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(Strangers, WithTheWrongCertificateOrNoneAreNotReached) {
  const TimeLimit limit(60);
  const penstock::test::TempFolder folder;
  if (!make_certificates(folder.path())) GTEST_SKIP() << "Debian's openssl is not installed";
  const auto files = [&](const std::string& name, const std::string& ca) {
    return TlsFiles{folder / (name + ".pem"), folder / (name + ".key"), folder / (ca + ".pem")};
  };
  const std::string address = free_address();
  RendezvousOptions options = options_of(1s);
  options.token = "t";
  options.tls = files("rank", "ca");
  const auto chief = open_grpc(rank_of(address, 0, 2), options);
  RendezvousOptions none = options;
  none.tls = {};
  RendezvousOptions other = options;
  other.tls = files("stranger", "ca");
  RendezvousOptions misled = options;
  misled.tls = files("rank", "other-ca");
  for (const RendezvousOptions& wrong : {none, other, misled})
    EXPECT_NE(error_of([&] {
                open_grpc(rank_of(address, 1, 2), wrong)->join({});
              }).find("rank 0 was not reached"),
              std::string::npos);
  options.join_timeout = 20s;
  const auto errors = on_all(2, [&](int rank) {
    if (rank == 0) return chief->join({});
    open_grpc(rank_of(address, 1, 2), options)->join({});
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

}  // namespace
}  // namespace penstock::cluster
