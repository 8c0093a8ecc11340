// What ranks add up together, over Gloo and over gRPC.
#include "cluster/process_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <penstock/dtype.h>
#include <penstock/rng.h>

#include "cluster/net/open.h"
#include "tests/cluster/ranks.h"
#include "tests/support/time_limit.h"
#include "towers/tree_sum.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::TimeLimit;
using test::error_of;
using test::free_address;
using test::on_all;
using test::options_of;
using test::rank_of;

/// Runs `body` with a group for each rank, on a thread of its own.
std::vector<std::string> with_groups(int world, Exchange exchange,
                                     const std::function<void(ProcessGroup&)>& body,
                                     Compress compress = Compress::none,
                                     Transport transport = Transport::gloo) {
  const std::string address = free_address();
  return on_all(world, [&](int rank) {
    const Cluster cluster = rank_of(address, rank, world);
    const auto rendezvous = open_grpc(cluster, options_of());
    rendezvous->join({});
    ProcessGroupOptions options;
    options.exchange = exchange;
    options.compress = compress;
    options.transport = transport;
    options.timeout = 20s;
    body(*open_group(*rendezvous, cluster, options));
  });
}

/// Of each rank.
std::vector<std::vector<float>> values_of(int world, std::size_t count) {
  std::vector<std::vector<float>> given;
  for (int rank = 0; rank < world; ++rank) {
    Rng rng(count, static_cast<std::uint64_t>(rank), 0);
    std::vector<float>& values = given.emplace_back();
    for (std::size_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>(rng.uniform() - 0.5) * (i % 7 == 0 ? 1e5F : 1.0F));
  }
  return given;
}

/// What becomes of a stream opened by whoever says so.
grpc::StatusCode stranger(const std::string& address, const std::string& token,
                          const std::string& rank, const std::string& group) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 10s);
  context.AddMetadata("penstock-token", token);
  context.AddMetadata("penstock-rank", rank);
  context.AddMetadata("penstock-group", group);
  grpc::CompletionQueue queue;
  const auto stream = stub.PrepareCall(&context, "/penstock.Exchange/Stream", &queue);
  const auto wait = [&] {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
  };
  stream->StartCall(nullptr);
  wait();
  grpc::Status status;
  stream->Finish(&status, nullptr);
  wait();
  return status.error_code();
}

void send_noise(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  ASSERT_EQ(inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr), 1);
  Rng rng(1, 2, 3);
  for (int connection = 0; connection < 20; ++connection) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    char noise[4096];
    for (char& byte : noise) byte = static_cast<char>(256 * rng.uniform() - 128);
    static_cast<void>(send(fd, noise, sizeof noise, MSG_NOSIGNAL));
    close(fd);
  }
}

class Sums : public testing::TestWithParam<std::tuple<Transport, Exchange, int>> {};

TEST_P(Sums, AreThoseOfAllRanksAndTheSameOnEach) {
  const TimeLimit limit(100);
  const auto [transport, exchange, world] = GetParam();
  // What everybody adds up for itself, pieces of one block, and of several.
  for (const std::size_t count : {0UL, 1UL, 2UL, 3UL, 7UL, 1000UL, 300'007UL, 1'500'001UL}) {
    const std::vector<std::vector<float>> given = values_of(world, count);
    std::vector<std::vector<float>> sums(given);
    for (const std::string& error : with_groups(
             world, exchange,
             [&](ProcessGroup& group) {
               // Twice: what one call leaves behind is not the next one's.
               auto& mine = sums[static_cast<std::size_t>(group.rank())];
               group.sum(mine);
               mine = given[static_cast<std::size_t>(group.rank())];
               group.sum(mine);
             },
             Compress::none, transport))
      ASSERT_EQ(error, "") << count;
    for (const auto& sum : sums) ASSERT_EQ(sum, sums.front()) << count;
    std::vector<std::vector<float>> parts(given);
    std::vector<float*> pointers;
    for (auto& part : parts) pointers.push_back(part.data());
    towers::sum_by_tree<float>(pointers, 0, count);
    if (exchange == Exchange::ordered) {
      ASSERT_EQ(sums.front(), parts.front()) << count;
    } else {
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_NEAR(sums.front()[i], parts.front()[i], 0.1) << count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Sums,
                         testing::Combine(testing::Values(Transport::gloo, Transport::grpc),
                                          testing::Values(Exchange::ordered, Exchange::ring),
                                          testing::Values(1, 2, 3, 8)),
                         [](const auto& row) {
                           return std::string(name_of(std::get<0>(row.param))) + "_" +
                                  std::string(name_of(std::get<1>(row.param))) + "_" +
                                  std::to_string(std::get<2>(row.param));
                         });

TEST(Groups, RoundWhatTheySendToBfloat16) {
  const TimeLimit limit(60);
  constexpr int kWorld = 3;
  const auto rounded = [](float value) { return float_from_bfloat16(bfloat16_from_float(value)); };
  for (const std::size_t count : {1UL, 2UL, 1000UL, 300'007UL}) {
    std::vector<std::vector<float>> given = values_of(kWorld, count);
    given[1][0] = std::numeric_limits<float>::infinity();
    given[2].back() = count > 1 ? std::numeric_limits<float>::quiet_NaN() : 1;
    std::vector<std::vector<float>> sums(given);
    const auto errors = with_groups(
        kWorld, Exchange::ring,
        [&](ProcessGroup& group) { group.sum(sums[static_cast<std::size_t>(group.rank())]); },
        Compress::bf16);
    for (const std::string& error : errors) ASSERT_EQ(error, "");
    for (std::size_t i = 0; i < count; ++i) {
      const float sum =
          rounded((rounded(given[0][i]) + rounded(given[1][i])) + rounded(given[2][i]));
      for (const auto& of_rank : sums)
        ASSERT_TRUE(of_rank[i] == sum || (std::isnan(sum) && std::isnan(of_rank[i]))) << i;
    }
  }
}

TEST(Groups, GatherWhatEachRankHas) {
  const TimeLimit limit(60);
  // From each to all, and in rounds; the last is too much for rounds.
  for (const int world : {3, 5, 6, 8})
    for (const std::string& error : with_groups(world, Exchange::ordered, [&](ProcessGroup& group) {
           for (const std::size_t bytes : {0UL, 1UL, 5UL, 4096UL, 200'000UL}) {
             const std::vector<std::byte> mine(bytes, static_cast<std::byte>(group.rank() + 1));
             std::vector<std::byte> all(static_cast<std::size_t>(world) * bytes);
             group.all_gather(mine, all);
             for (std::size_t i = 0; i < all.size(); ++i)
               ASSERT_EQ(all[i], static_cast<std::byte>(i / bytes + 1)) << world << " " << i;
           }
         }))
      EXPECT_EQ(error, "");
}

TEST(Groups, FailureOfOneRank) {
  const TimeLimit limit(60);
  const auto errors = with_groups(3, Exchange::ring, [](ProcessGroup& group) {
    std::vector<float> values(1000, 1.0F);
    group.sum(values);
    if (group.rank() == 1) {
      group.fail(Status(ErrorCode::data_loss, "a bad record"));
      EXPECT_EQ(error_of([&] { group.sum(values); }), "a bad record");
      throw Error(ErrorCode::data_loss, "a bad record");
    }
    group.sum(values);
  });
  EXPECT_EQ(errors[1], "a bad record");
  for (const int other : {0, 2})
    EXPECT_EQ(errors[static_cast<std::size_t>(other)], "rank 1: a bad record");
}

TEST(Groups, StrangersOverGrpc) {
  const TimeLimit limit(60);
  const std::string address = free_address();
  std::string listens;
  const auto errors = on_all(2, [&](int rank) {
    const Cluster cluster = rank_of(address, rank, 2);
    const auto rendezvous = open_grpc(cluster, options_of());
    rendezvous->join({});
    ProcessGroupOptions options;
    options.transport = Transport::grpc;
    options.token = "the job's";
    options.timeout = 20s;
    if (rank == 0) {
      const auto group = open_group(*rendezvous, cluster, options);
      std::vector<float> values(1000, 1.0F);
      group->sum(values);
      EXPECT_EQ(values[999], 2.0F);
      return;
    }
    const std::string at = rendezvous->get("group gradients/address 0", 20s);
    // What does not know the job's token, what is no rank of the group, and what is no gRPC.
    for (const auto& [token, number, group] :
         {std::tuple("another's", "1", "gradients"), std::tuple("the job's", "0", "gradients"),
          std::tuple("the job's", "2", "gradients"), std::tuple("the job's", "-1", "gradients"),
          std::tuple("the job's", "x", "gradients"), std::tuple("the job's", "1", "towers")})
      EXPECT_EQ(stranger(at, token, number, group), grpc::StatusCode::PERMISSION_DENIED)
          << token << " " << number << " " << group;
    send_noise(at);
    std::vector<float> values(1000, 1.0F);
    const auto own = open_group(*rendezvous, cluster, options);
    own->sum(values);
    EXPECT_EQ(values[0], 2.0F);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(Groups, WithoutEncryptionOnlyWhereThatIsSaid) {
  const TimeLimit limit(60);
  const Cluster cluster = rank_of(free_address(), 0, 1);
  const auto rendezvous = open_grpc(cluster, options_of());
  ProcessGroupOptions options;
  options.interface = "eth7";
  EXPECT_NE(
      error_of([&] { open_group(*rendezvous, cluster, options); }).find("--insecure-exchange"),
      std::string::npos);
  options.insecure = true;
  EXPECT_EQ(error_of([&] { open_group(*rendezvous, cluster, options); }),
            "there is no network interface eth7");
  EXPECT_NE(error_of([] { parse_compress("zip"); }).find("none, bf16"), std::string::npos);
  EXPECT_NE(error_of([] { parse_exchange("tree"); }).find("ordered, ring"), std::string::npos);
}

}  // namespace
}  // namespace penstock::cluster
