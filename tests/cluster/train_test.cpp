// `penstock train` as several processes, each started bare: whatever holds a tower, the variables
// are those of one process, to the bit.
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/cluster/train_ranks.h"
#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::devices;
using test::flags_of;
using test::free_port;
using test::Outcome;
using test::Program;
using test::run;
using test::start;
using test::TimeLimit;
using test::wait_for_steps;
using test::write_cifar;

struct Way {
  const char* name;
  std::vector<std::string> flags;
  friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
};

class Processes : public testing::TestWithParam<Way> {};

TEST_P(Processes, HaveTheBitsOfOne) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  // 3 steps of 8 elements, and 5 more elements.
  const auto flags = flags_of(write_cifar(folder, 29), GetParam().flags);
  const nlohmann::json one = run(1, flags);
  ASSERT_FALSE(one.is_null());
  for (const int processes : {2, 4}) {
    const nlohmann::json many = run(processes, flags);
    ASSERT_FALSE(many.is_null()) << processes;
    for (const char* figure : {"variables_digest", "train_loss", "steps", "images"})
      EXPECT_EQ(many[figure], one[figure]) << figure << " of " << processes;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, Processes,
    testing::Values(Way{"per_tower", {}},
                    Way{"split_pad", {"--feed", "split", "--epoch-end", "pad"}},
                    Way{"sharded_stop", {"--feed", "sharded", "--epoch-end", "stop"}},
                    Way{"wrap", {"--epoch-end", "wrap"}},
                    Way{"spread_sum", {"--strategy", "spread", "--combine", "sum"}},
                    Way{"small_buckets", {"--bucket", "4096"}}),
    [](const auto& row) { return row.param.name; });

TEST(Processes, ResumeWithAnotherNumber) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  const std::string data = write_cifar(folder, 45);
  const nlohmann::json straight = run(1, flags_of(data, {}));
  ASSERT_FALSE(straight.is_null());
  const std::string kept = folder / "checkpoints";
  nlohmann::json last;
  std::uint64_t before = 0;
  for (const auto& [processes, until] :
       {std::pair(4, "3"), std::pair(2, "6"), std::pair(1, "8"), std::pair(4, "10")}) {
    last = run(processes, flags_of(data, {"--checkpoint", kept, "--max-steps", until}));
    ASSERT_FALSE(last.is_null()) << processes;
    EXPECT_EQ(last["resumed_at"], before);
    before = std::stoull(until);
  }
  EXPECT_EQ(last["variables_digest"], straight["variables_digest"]);
  EXPECT_EQ(last["steps"], straight["steps"]);
}

TEST(Processes, LossesOfTheRing) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  const auto data = write_cifar(folder, 45);
  const nlohmann::json one = run(1, flags_of(data, {}));
  const nlohmann::json ring = run(4, flags_of(data, {"--exchange", "ring"}));
  ASSERT_FALSE(one.is_null() || ring.is_null());
  ASSERT_EQ(ring["train_loss"].size(), one["train_loss"].size());
  for (std::size_t step = 0; step < 5; ++step)
    EXPECT_NEAR(ring["train_loss"][step].get<double>(), one["train_loss"][step].get<double>(),
                1e-4);
}

TEST(Processes, RoundedGradients) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  const auto data = write_cifar(folder, 29);
  std::vector<std::string> flags = flags_of(data, {"--compress", "bf16"});
  const Outcome refused = Program(flags).wait(30);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--compress"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("--deterministic"), std::string::npos) << refused.err;
  const nlohmann::json exact = run(2, flags_of(data, {}));
  std::erase(flags, "--deterministic");
  const nlohmann::json rounded = run(2, flags);
  ASSERT_FALSE(exact.is_null() || rounded.is_null());
  EXPECT_NE(rounded["variables_digest"], exact["variables_digest"]);
  ASSERT_EQ(rounded["train_loss"].size(), exact["train_loss"].size());
  for (std::size_t step = 0; step < 3; ++step)
    EXPECT_NEAR(rounded["train_loss"][step].get<double>(), exact["train_loss"][step].get<double>(),
                1e-2);
}

TEST(Processes, LostRank) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  for (const int lost : {1, 0}) {
    auto ranks =
        start(2, {"train", "--model", "cifar10", "--data", write_cifar(folder, 29), "--batch", "2",
                  "--epochs", "100000", "--quiet", "--schedule", "constant:0.01", "--checkpoint",
                  folder / std::to_string(lost), "--checkpoint-every", "3"});
    wait_for_steps(ranks, folder / std::to_string(lost));
    if (HasFatalFailure()) return;
    ranks[static_cast<std::size_t>(lost)]->signal(SIGKILL);
    const Outcome survivor = ranks[static_cast<std::size_t>(1 - lost)]->wait(40);
    EXPECT_EQ(survivor.code, 75) << survivor.err;
    EXPECT_NE(survivor.err.find("rank " + std::to_string(lost)), std::string::npos) << survivor.err;
    EXPECT_NE(survivor.err.find("lost"), std::string::npos) << survivor.err;
  }
}

TEST(Processes, SigtermAtAnyRank) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  const std::string data = write_cifar(folder, 29);
  const std::vector<std::string> flags{"train",
                                       "--model",
                                       "cifar10",
                                       "--data",
                                       data,
                                       "--batch",
                                       "2",
                                       "--epochs",
                                       "100000",
                                       "--quiet",
                                       "--json",
                                       "-",
                                       "--schedule",
                                       "constant:0.01",
                                       "--checkpoint",
                                       folder / "checkpoints",
                                       "--checkpoint-every",
                                       "3"};
  auto ranks = start(2, flags);
  wait_for_steps(ranks, folder / "checkpoints");
  if (HasFatalFailure()) return;
  ranks[1]->signal(SIGTERM);
  const Outcome first = ranks[0]->wait(60);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(ranks[1]->wait(60).code, 0);
  const auto steps = first.json()["steps"].get<std::uint64_t>();
  EXPECT_GT(steps, 0U);
  auto again = flags;
  again.insert(again.end(), {"--max-steps", std::to_string(steps + 2)});
  const nlohmann::json on = run(4, again);
  ASSERT_FALSE(on.is_null());
  EXPECT_EQ(on["resumed_at"], steps);
  EXPECT_EQ(on["steps"], steps + 2);
}

TEST(Processes, DifferingSettings) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  const std::string port = std::to_string(free_port());
  std::vector<std::unique_ptr<Program>> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::make_unique<Program>(
        flags_of(write_cifar(folder, 29), {"--seed", std::to_string(rank)}), "",
        std::vector<std::string>{"RANK=" + std::to_string(rank), "WORLD_SIZE=2",
                                 "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port}));
  for (const auto& rank : ranks) {
    const Outcome outcome = rank->wait(60);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("ranks differ: rank 1 with seed 1, rank 0 with seed 0"),
              std::string::npos)
        << outcome.err;
  }
}

TEST(Ranks, AreReportedAsFlagsGiveThem) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  const auto flags = flags_of(write_cifar(folder, 29), {});
  const std::string here = "127.0.0.1:";
  const std::string meets = "grpc://" + here + std::to_string(free_port());
  std::vector<std::unique_ptr<Program>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), {"--cluster", here + "1," + here + "2", "--rank", std::to_string(rank),
                           "--rendezvous", meets});
    ranks.push_back(std::make_unique<Program>(
        all, "", std::vector<std::string>{"PENSTOCK_REPORT=" + (folder / "report-%r.json")}));
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Outcome outcome = ranks[rank]->wait(60);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const auto report = nlohmann::json::parse(
        test::read_file(folder / ("report-" + std::to_string(rank) + ".json")));
    EXPECT_EQ(report["rank"], rank);
    EXPECT_EQ(report["ranks"], 2);
  }
}

}  // namespace
}  // namespace penstock
