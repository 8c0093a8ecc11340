// What tables cost on the wire: a job of three processes by gRPC, whose messages are counted.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/parameter_servers.h"
#include "tests/cluster/ranks.h"
#include "tests/support/time_limit.h"
#include "tests/towers/bags.h"
#include "tests/towers/twins.h"
#include "towers/servers/served_job.h"
#include "towers/servers/shard_server.h"

namespace penstock::cluster {
namespace {

using penstock::test::TimeLimit;
using towers::StrategyKind;
using towers::TrainOptions;
using towers::TrainResult;
using towers::test::bags;
using towers::test::bags_maker;

constexpr int kProcesses = 3;
constexpr std::int64_t kRows = 400'000;
constexpr std::uint64_t kTableBytes = kRows * 3 * sizeof(float);
constexpr std::uint64_t kBatch = 8;

TrainOptions options_of(StrategyKind kind) {
  TrainOptions options = towers::test::options_for(1, kBatch);
  options.epochs = 2;
  options.strategy.kind = kind;
  options.strategy.update.schedule = towers::Schedule::constant(0.5);
  return options;
}

Dataset data() {
  return bags(480, kRows).shuffle();
}

/// What came of the chief, and the bytes that the servers saw.
struct Outcome {
  std::optional<TrainResult> chief{};
  std::uint64_t received = 0, sent = 0;
};

Outcome run_job(StrategyKind kind) {
  const std::vector<std::string> addresses{test::free_address(), test::free_address()};
  RendezvousOptions options = test::options_of();
  options.peer_timeout = std::chrono::seconds(20);
  std::vector<std::unique_ptr<towers::ShardServer>> rules;
  std::vector<std::unique_ptr<ServedParameters>> services;
  for (const std::string& address : addresses) {
    rules.push_back(std::make_unique<towers::ShardServer>(
        towers::ShardServerOptions{.peer_timeout = options.peer_timeout,
                                   .join_timeout = options.join_timeout,
                                   .connect = [&](const std::string& other) {
                                     return open_parameter_server("another", other, options);
                                   }}));
    services.push_back(serve_parameters(*rules.back(), address, options));
  }
  Outcome outcome;
  const std::vector<std::string> errors = test::on_all(kProcesses, [&](int process) {
    towers::ServedJob job;
    for (std::size_t s = 0; s < addresses.size(); ++s)
      job.servers.push_back(
          open_parameter_server("ps " + std::to_string(s), addresses[s], options));
    job.addresses = addresses;
    job.process = process;
    job.processes = kProcesses;
    job.incarnation = "process " + std::to_string(process);
    TrainOptions mine = options_of(kind);
    mine.strategy.served = &job;
    towers::Trainer trainer(bags_maker(kRows), data(), std::nullopt, mine);
    towers::TrainObserver nobody;
    TrainResult result = trainer.run(nobody);
    if (process == 0) outcome.chief = std::move(result);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  for (const auto& service : services) {
    outcome.received += service->received();
    outcome.sent += service->sent();
  }
  return outcome;
}

/// What steps may cost: for each id 8 bytes and its row's values, and little besides.
constexpr std::uint64_t kBytesOfSteps =
    480 * 2 * 2 * towers::test::kMostIds * (8 + 3 * 4) + 600'000;

TEST(Tables, CostTheIdsOfEachStepOnTheWireAndHaveTheBitsOfWholeOnes) {
  const TimeLimit limit(100);
  const Outcome served = run_job(StrategyKind::sync_replicas);
  ASSERT_TRUE(served.chief);
  // Of 60 steps in all. Whole it goes once there, at the beginning, and once back, at the end.
  EXPECT_GT(served.received, kTableBytes);
  EXPECT_LT(served.received, kTableBytes + 2 * kBytesOfSteps);
  EXPECT_GT(served.sent, kTableBytes);
  EXPECT_LT(served.sent, kTableBytes + kBytesOfSteps);
  TrainOptions alone = options_of(StrategyKind::replicated);
  alone.devices = towers::test::options_for(kProcesses, kBatch).devices;
  towers::Trainer trainer(bags_maker(kRows), data(), std::nullopt, alone);
  towers::TrainObserver nobody;
  EXPECT_EQ(served.chief->digest, trainer.run(nobody).digest);
}

TEST(Tables, CostTheIdsOfEachStepWithAsyncToo) {
  const TimeLimit limit(100);
  const Outcome served = run_job(StrategyKind::async);
  ASSERT_TRUE(served.chief);
  EXPECT_EQ(served.chief->steps, 480U * 2 / kBatch);
  EXPECT_LT(served.received, kTableBytes + 2 * kBytesOfSteps);
  EXPECT_LT(served.sent, kTableBytes + kBytesOfSteps);
}

}  // namespace
}  // namespace penstock::cluster
