// What is seen of every rank where several processes train: figures at rank 0, metrics,
// TensorBoard, and one trace on one clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "tests/support/free_port.h"
#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using nlohmann::json;
using test::free_port;
using test::Outcome;
using test::Program;
using test::TempFolder;
using test::TimeLimit;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kRanks = 2;

/// Labels and pixels of CIFAR-10's binary format.
std::string labelled_images(const TempFolder& folder) {
  constexpr int kImages = 33;
  std::string bytes;
  for (int i = 0; i < kImages * 3073; ++i)
    bytes.push_back(static_cast<char>(i % 3073 == 0 ? i / 3073 % 10 : i * 7 % 251));
  return folder.write("images.bin", bytes);
}

/// Two processes with two towers each.
class Ranks {
 public:
  Ranks(const std::string& data, const std::vector<std::string>& more,
        const std::vector<std::string>& of_first = {}) {
    const std::string port = std::to_string(free_port());
    for (int rank = 0; rank < kRanks; ++rank) {
      std::vector<std::string> flags{
          "train", "--model",    "cifar10",       "--data", data, "--batch",
          "2",     "--device",   "host:0,host:1", "--json", "-",  "--peer-timeout",
          "3",     "--schedule", "constant:0.01"};
      flags.insert(flags.end(), more.begin(), more.end());
      std::vector<std::string> environment{"RANK=" + std::to_string(rank), "WORLD_SIZE=2",
                                           "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port};
      if (rank == 0) environment.insert(environment.end(), of_first.begin(), of_first.end());
      ranks_.push_back(std::make_unique<Program>(flags, "", environment));
    }
  }
  Program& operator[](std::size_t rank) { return *ranks_[rank]; }
  /// Of rank 0, once both have ended well.
  Outcome end() {
    Outcome first = ranks_[0]->wait(100);
    EXPECT_EQ(first.code, 0) << first.err;
    const Outcome second = ranks_[1]->wait(100);
    EXPECT_EQ(second.code, 0) << second.err;
    return first;
  }

 private:
  std::vector<std::unique_ptr<Program>> ranks_;
};

TEST(Seen, AreAllRanksInTheResult) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const Outcome outcome = Ranks(labelled_images(folder), {"--epochs", "2"}).end();
  ASSERT_EQ(outcome.code, 0);
  const json result = outcome.json();
  ASSERT_EQ(result["ranks"].size(), kRanks);
  for (int r = 0; r < kRanks; ++r) {
    const json& rank = result["ranks"][static_cast<std::size_t>(r)];
    EXPECT_EQ(rank["rank"], r);
    EXPECT_EQ(rank["steps"], result["steps"]);
    EXPECT_GT(rank["loss"], 0);
    EXPECT_GT(rank["images_per_second"], 0);
    EXPECT_GT(rank["exchange_s"], 0);
    EXPECT_GE(rank["exposed_s"], 0);
    EXPECT_LE(rank["exposed_s"], rank["exchange_s"]);
    EXPECT_GE(rank["clock_within_s"], 0) << "it knows rank 0's clock";
    EXPECT_LT(rank["clock_within_s"], 1);
    ASSERT_EQ(rank["towers"].size(), 2U);
    for (int t = 0; t < 2; ++t) {
      const json& tower = rank["towers"][static_cast<std::size_t>(t)];
      EXPECT_EQ(tower["tower"], 2 * r + t);
      EXPECT_EQ(tower["steps"], result["steps"]);
      EXPECT_GE(tower["stall_share"], 0);
    }
  }
  EXPECT_NE(result["ranks"][0]["loss"], result["ranks"][1]["loss"]) << "each of its own rows";
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rank 0  step "), HasSubstr("rank 1  step ")));
}

// Whoever exchanges a step's gradients waits for the other: on one clock both are at it at a time.
TEST(Seen, AreAllRanksInOneTraceOnOneClock) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const std::string file = folder / "trace.json";
  const Outcome outcome =
      Ranks(labelled_images(folder), {"--epochs", "2", "--quiet", "--trace", file}).end();
  ASSERT_EQ(outcome.code, 0);
  double within_us = 0;
  for (const json& rank : outcome.json()["ranks"])
    within_us = std::max(within_us, 1e6 * rank["clock_within_s"].get<double>());
  std::map<int, std::string> names;
  std::map<int, int> steps;
  std::map<int, std::vector<std::pair<double, double>>> exchanges;
  const json trace = json::parse(test::read_file(file));
  for (const json& event : trace["traceEvents"]) {
    const int rank = event["pid"].get<int>() - 1;
    if (event["ph"] == "M" && event["name"] == "process_name")
      names[rank] = event["args"]["name"].get<std::string>();
    if (event["ph"] != "X") continue;
    EXPECT_GE(event["ts"], 0);
    steps[rank] += event["cat"] == "step" ? 1 : 0;
    const double begin = event["ts"];
    if (event["name"] == "exchange")
      exchanges[rank].emplace_back(begin, begin + event["dur"].get<double>());
  }
  EXPECT_EQ(names, (std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}}));
  EXPECT_GT(steps[0], 0);
  EXPECT_GT(steps[1], 0);
  ASSERT_GE(exchanges[0].size(), 4U);
  ASSERT_EQ(exchanges[0].size(), exchanges[1].size());
  for (std::size_t i = 0; i < exchanges[0].size(); ++i) {
    const auto& [begin, end] = exchanges[0][i];
    const auto& [their_begin, their_end] = exchanges[1][i];
    EXPECT_LE(begin, their_end + within_us + 1) << i;
    EXPECT_LE(their_begin, end + within_us + 1) << i;
  }
}

std::string metrics_at(int port) {
  namespace ip = boost::asio::ip;
  boost::asio::io_context context;
  ip::tcp::socket socket(context);
  boost::system::error_code error;
  socket.connect({ip::address_v4::loopback(), static_cast<std::uint16_t>(port)}, error);
  if (error) return "";
  boost::asio::write(socket,
                     boost::asio::buffer(std::string("GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
                                                     "Connection: close\r\n\r\n")),
                     error);
  std::string answer;
  boost::asio::read(socket, boost::asio::dynamic_buffer(answer), error);
  return answer;
}

std::string all_below(const std::string& folder) {
  std::string bytes;
  std::error_code none_yet;
  for (const auto& file : std::filesystem::directory_iterator(folder, none_yet))
    bytes += test::read_file(file.path().string());
  return bytes;
}

TEST(Seen, AreAllRanksWhileTheyTrain) {
  const TimeLimit limit(110);
  const TempFolder folder;
  const int port = free_port();
  Ranks ranks(labelled_images(folder),
              {"--epochs", "1000000", "--checkpoint", folder / "checkpoints", "--tensorboard",
               folder / "events"},
              {"PENSTOCK_METRICS=" + std::to_string(port)});
  const auto in_a_while = [&](const auto& there) {
    for (int tries = 0; tries < 6000 && !there(); ++tries) {
      if (ranks[0].ended() || ranks[1].ended()) return false;
      usleep(10'000);
    }
    return there();
  };
  std::string page;
  EXPECT_TRUE(in_a_while([&] {
    page = metrics_at(port);
    return page.find("penstock_train_stall_share{rank=\"1\",tower=\"3\"}") != page.npos &&
           page.find("penstock_train_stall_share{rank=\"0\",tower=\"0\"}") != page.npos;
  })) << page;
  for (const char* metric : {"steps_total", "loss", "images_per_second", "exchange_seconds_total",
                             "exposed_seconds_total"})
    for (const char* rank : {"0", "1"})
      EXPECT_THAT(page,
                  HasSubstr("penstock_train_" + std::string(metric) + "{rank=\"" + rank + "\"} "));
  std::string events;
  EXPECT_TRUE(in_a_while([&] {
    events = all_below(folder / "events");
    return events.find("ranks/loss/rank1") != events.npos;
  }));
  EXPECT_THAT(events, AllOf(HasSubstr("ranks/exposed_share/rank1"),
                            HasSubstr("ranks/stall_share/rank1/tower3"),
                            HasSubstr("ranks/images_per_second/rank0")));
  ranks[1].signal(SIGTERM);
  EXPECT_THAT(ranks.end().err, HasSubstr("rank 1  step "));
}

}  // namespace
}  // namespace penstock
