// Members of a job that look for each other, on loopback.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <penstock/error.h>

#include "cluster/members.h"
#include "cluster/reach.h"
#include "tests/cluster/free_address.h"
#include "tests/support/time_limit.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::free_addresses;
using penstock::test::TimeLimit;

const auto never = [] { return false; };

Cluster member(const std::vector<std::string>& addresses, int rank) {
  std::string list;
  for (const std::string& address : addresses) list += (list.empty() ? "" : ",") + address;
  return resolve(Environment({}), {.cluster = list, .rank = rank});
}

TEST(Reach, AllMembers) {
  const TimeLimit limit(60);
  const auto addresses = free_addresses(3);
  std::vector<std::future<std::vector<Reached>>> all;
  for (int rank = 0; rank < 3; ++rank)
    all.push_back(std::async(std::launch::async,
                             [&, rank] { return reach(member(addresses, rank), 2s, never); }));
  for (auto& one : all) {
    const std::vector<Reached> others = one.get();
    ASSERT_EQ(others.size(), 2U);
    for (const Reached& other : others) EXPECT_EQ(other.problem, "") << other.who;
  }
}

TEST(Reach, NamesWhoIsMissing) {
  const TimeLimit limit(60);
  const auto addresses = free_addresses(2);
  const std::vector<Reached> others = reach(member(addresses, 0), 500ms, never);
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].who, "worker 1");
  EXPECT_EQ(others[0].address, addresses[1]);
  EXPECT_EQ(others[0].problem, "refused: no process listens on this port");
}

TEST(Reach, StopsWhenTold) {
  const TimeLimit limit(60);
  int asked = 0;
  const auto addresses = free_addresses(2);
  reach(member(addresses, 0), 3600s, [&] { return ++asked > 2; });
  EXPECT_EQ(asked, 3);
}

TEST(Reach, SaysThatAnAddressIsTaken) {
  const TimeLimit limit(60);
  boost::asio::io_context context;
  const boost::asio::ip::tcp::acceptor other(
      context, boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
  const std::string address = "127.0.0.1:" + std::to_string(other.local_endpoint().port());
  try {
    reach(member({address, "127.0.0.1:1"}, 0), 1s, never);
    FAIL() << "it listens twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_NE(std::string(error.what()).find(address), std::string::npos) << error.what();
  }
}

TEST(Reach, RanksWithoutAddresses) {
  const TimeLimit limit(60);
  const std::string address = free_addresses(1).front();
  const auto rank = [&](int number) {
    return resolve(Environment({{"RANK", std::to_string(number)},
                                {"WORLD_SIZE", "2"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", address.substr(address.find(':') + 1)}}));
  };
  auto chief = std::async(std::launch::async, [&] { return reach(rank(0), 2s, never); });
  const std::vector<Reached> others = reach(rank(1), 2s, never);
  EXPECT_TRUE(chief.get().empty());
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].who, "rank 0");
  EXPECT_EQ(others[0].problem, "");
}

TEST(SlurmHosts, TheFirstOfAList) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"n1", "n1"},           {"n1,n2", "n1"},         {"node[08-11,20],gpu1", "node08"},
      {"node[3,5]", "node3"}, {"gpu1,n[1-2]", "gpu1"}, {"rack[1-2]n,x", "rack1n"},
  };
  for (const auto& [list, first] : rows) EXPECT_EQ(first_host(list), first) << list;
}

}  // namespace
}  // namespace penstock::cluster
