// Towers that any number of processes share out, and checkpoints that these resume from.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/cluster/train_ranks.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::flags_of;
using test::Outcome;
using test::run;
using test::start;
using test::TimeLimit;
using test::write_cifar;

/// The name of the last checkpoint; empty: there is none.
std::string newest_in(const std::string& folder) {
  std::string newest;
  std::error_code none_yet;
  for (const auto& file : std::filesystem::directory_iterator(folder, none_yet))
    if (file.path().extension() == ".safetensors")
      newest = std::max(newest, file.path().filename().string());
  return newest;
}

TEST(VirtualTowers, HaveTheSameBitsOnAnyNumberOfProcessesAndDevices) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  const std::string data = write_cifar(folder, 53);
  struct Division {
    int towers, processes, devices;
  };
  nlohmann::json whole[9];
  for (const int towers : {4, 8}) whole[towers] = run(1, towers, flags_of(data, {}));
  for (const auto& [towers, processes, devices] :
       {Division{4, 1, 1}, Division{4, 2, 1}, Division{4, 4, 1}, Division{8, 1, 2},
        Division{8, 2, 1}, Division{8, 2, 2}}) {
    SCOPED_TRACE(std::to_string(towers) + " on " + std::to_string(processes) + " x " +
                 std::to_string(devices));
    const nlohmann::json many =
        run(processes, devices, flags_of(data, {"--virtual-towers", std::to_string(towers)}));
    ASSERT_FALSE(many.is_null() || whole[towers].is_null());
    EXPECT_GE(many["steps"], 6);
    for (const char* figure : {"variables_digest", "train_loss", "steps", "images"})
      EXPECT_EQ(many[figure], whole[towers][figure]) << figure;
  }
}

TEST(VirtualTowers, GoOnWithAnyNumberOfProcessesFromFoldersOfTheirOwn) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  const std::string data = write_cifar(folder, 45);
  const nlohmann::json straight = run(1, 4, flags_of(data, {}));
  ASSERT_FALSE(straight.is_null());
  nlohmann::json last;
  std::uint64_t before = 0;
  // Only rank 0's folder has a checkpoint; another's can't even be made.
  folder.write("file", "x");
  for (const auto& [processes, until] :
       {std::pair(4, "3"), std::pair(2, "6"), std::pair(1, "8"), std::pair(4, "10")}) {
    std::vector<std::vector<std::string>> own;
    for (int rank = 0; rank < processes; ++rank)
      own.push_back({"--checkpoint", rank == 3   ? folder / "file/sub"
                                     : rank == 0 ? folder / "chief"
                                                 : folder / ("rank" + std::to_string(rank))});
    last = test::result_of(start(processes, 1, flags_of(data, {"--max-steps", until}), own));
    ASSERT_FALSE(last.is_null()) << processes;
    EXPECT_EQ(last["resumed_at"], before);
    before = std::stoull(until);
  }
  EXPECT_EQ(last["variables_digest"], straight["variables_digest"]);
  EXPECT_EQ(last["steps"], straight["steps"]);
  EXPECT_FALSE(std::filesystem::exists(folder / "rank1"));
}

TEST(VirtualTowers, GoOnWithOtherNumbersAfterKills) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  const std::string data = write_cifar(folder, 200);
  const std::vector<std::string> flags = flags_of(data, {"--virtual-towers", "4"});
  const nlohmann::json straight = run(1, 1, flags);
  ASSERT_FALSE(straight.is_null());
  auto kept = flags;
  kept.insert(kept.end(), {"--checkpoint", folder / "checkpoints", "--checkpoint-every", "1"});
  for (const auto& [processes, lost] : {std::pair(4, 2U), std::pair(2, 0U), std::pair(1, 0U)}) {
    auto ranks = start(processes, 1, kept);
    // A step further than where it began.
    const std::string newest = newest_in(folder / "checkpoints");
    for (int tries = 0; tries < 6000 && newest_in(folder / "checkpoints") == newest; ++tries)
      usleep(10'000);
    ASSERT_NE(newest_in(folder / "checkpoints"), newest);
    ranks[lost]->signal(SIGKILL);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const Outcome outcome = ranks[rank]->wait(60);
      EXPECT_EQ(outcome.code, rank == lost ? 128 + SIGKILL : 75) << outcome.err;
    }
  }
  const nlohmann::json last = run(4, 1, kept);
  ASSERT_FALSE(last.is_null());
  EXPECT_GE(last["resumed_at"], 3);
  EXPECT_EQ(last["variables_digest"], straight["variables_digest"]);
  EXPECT_EQ(last["steps"], straight["steps"]);
}

TEST(VirtualTowers, RankWithANewerCheckpoint) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  const std::string data = write_cifar(folder, 29);
  ASSERT_FALSE(
      run(1, 2, flags_of(data, {"--max-steps", "2", "--checkpoint", folder / "one"})).is_null());
  auto ranks = start(2, 1, flags_of(data, {}),
                     {{"--checkpoint", folder / "none"}, {"--checkpoint", folder / "one"}});
  for (const auto& rank : ranks) {
    const Outcome outcome = rank->wait(60);
    EXPECT_NE(outcome.code, 0);
    EXPECT_THAT(outcome.err,
                testing::HasSubstr("rank 1 finds a newer checkpoint in its folder, one of step 2, "
                                   "than rank 0, which finds none"));
  }
}

TEST(VirtualTowers, IndivisibleNumbers) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  const std::string data = write_cifar(folder, 29);
  const auto refused = [&](int processes, int each, const char* towers, const char* why) {
    const auto ranks = start(processes, each, flags_of(data, {"--virtual-towers", towers}));
    for (const auto& rank : ranks) {
      const Outcome outcome = rank->wait(60);
      EXPECT_NE(outcome.code, 0);
      EXPECT_THAT(outcome.err, testing::HasSubstr(why));
    }
  };
  refused(3, 1, "4", "4 virtual towers can't be divided among 3 devices");
  refused(2, 1, "6", "6 virtual towers are 3 for each process, which can have 1, 2, 4, 8");
}

TEST(VirtualTowers, MayBeAnyNumberOfProcessesTimesAPowerOfTwo) {
  const TimeLimit limit(110);
  const test::TempFolder folder;
  const std::string data = write_cifar(folder, 53);
  const nlohmann::json one = run(1, 1, flags_of(data, {"--virtual-towers", "6"}));
  const nlohmann::json three = run(3, 1, flags_of(data, {"--virtual-towers", "6"}));
  ASSERT_FALSE(one.is_null() || three.is_null());
  EXPECT_EQ(three["variables_digest"], one["variables_digest"]);
}

}  // namespace
}  // namespace penstock
