// Random bytes on the ports that ranks listen at, from before they connect until after: they end
// the job with an error, or are not noticed. No crash, no hang, no wrong sum.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/socket.h>
#include <sys/time.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <penstock/rng.h>

#include "tests/cluster/free_address.h"
#include "tests/cluster/rank_process.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::free_address;
using penstock::test::TimeLimit;
using test::RankProcess;

/// Where a process listens on IPv4.
std::set<int> ports_of(pid_t process) {
  std::set<std::string> sockets;
  std::error_code gone;
  const std::string folder = "/proc/" + std::to_string(process);
  for (const auto& file : std::filesystem::directory_iterator(folder + "/fd", gone)) {
    const std::string target = std::filesystem::read_symlink(file.path(), gone).string();
    if (target.starts_with("socket:[")) sockets.insert(target.substr(8, target.size() - 9));
  }
  std::set<int> ports;
  std::ifstream table(folder + "/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, skipped, inode;
    words >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) words >> skipped;
    words >> inode;
    if (state == "0A" && sockets.contains(inode))
      ports.insert(std::stoi(local.substr(local.find(':') + 1), nullptr, 16));
  }
  return ports;
}

void throw_bytes_at(int port, Rng& rng) {
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket socket(context);
  boost::system::error_code ignored;
  socket.open(boost::asio::ip::tcp::v4(), ignored);
  // Who is not let in, as its queue is full, would wait for minutes.
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(socket.native_handle(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  socket.connect({boost::asio::ip::address_v4::loopback(), static_cast<unsigned short>(port)},
                 ignored);
  // Gloo's connections begin with a small number of eight bytes: some of these are such.
  std::string junk;
  if (rng.coin(0.5)) junk = std::string(1, static_cast<char>(rng.below(4))) + std::string(7, '\0');
  for (std::uint64_t n = rng.below(300); n > 0; --n)
    junk.push_back(static_cast<char>(rng.below(256)));
  boost::asio::write(socket, boost::asio::buffer(junk), ignored);
}

class Junk : public testing::TestWithParam<int> {};

TEST_P(Junk, OnGloosPortsEndsTheJobAndNoMore) {
  const TimeLimit limit(110);
  Rng rng(static_cast<std::uint64_t>(GetParam()), 0, 0);
  std::vector<std::unique_ptr<RankProcess>> ranks;
  int thrown = 0;
  // Gloo listens only until all have connected: where that was over before this looked, once more.
  for (int tries = 0; thrown == 0 && tries < 50; ++tries) {
    ranks.clear();
    const std::string place = free_address();
    const int own = std::stoi(place.substr(place.find(':') + 1));  // of gRPC: see strangers_test
    for (int rank = 0; rank < 3; ++rank)
      ranks.push_back(std::make_unique<RankProcess>(place, rank, 3, 2000, "ordered"));
    const auto until = std::chrono::steady_clock::now() + 1500ms;
    const auto over = [&] {
      return thrown > 0 ? std::chrono::steady_clock::now() >= until : ranks[0]->said() != "";
    };
    while (!over())
      for (const auto& rank : ranks)
        for (const int port : ports_of(rank->id())) {
          if (port == own) continue;
          throw_bytes_at(port, rng);
          ++thrown;
        }
  }
  EXPECT_GT(thrown, 0) << ranks[0]->said();
  // Those that were not disturbed continue until one is killed.
  ranks[2]->signal(SIGKILL);
  for (int rank = 0; rank < 2; ++rank) {
    const int code = ranks[static_cast<std::size_t>(rank)]->wait();
    EXPECT_TRUE(code == 75 || code == 1) << "rank " << rank << " ended with " << code << ": "
                                         << ranks[static_cast<std::size_t>(rank)]->said();
    EXPECT_NE(ranks[static_cast<std::size_t>(rank)]->said(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Junk, testing::Range(1, 7));

}  // namespace
}  // namespace penstock::cluster
