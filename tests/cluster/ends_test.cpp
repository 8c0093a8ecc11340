// How a job of several processes is ended: a SIGTERM at any rank saves one position, unless a peer
// is gone already: then no checkpoint is made.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "tests/cluster/free_address.h"
#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::Outcome;
using test::Program;
using test::TimeLimit;

/// Of the newest checkpoint; 0: there is none.
std::uint64_t newest_in(const std::string& folder) {
  std::uint64_t newest = 0;
  std::error_code none_yet;
  for (const auto& file : std::filesystem::directory_iterator(folder, none_yet)) {
    const std::string name = file.path().filename();
    if (name.starts_with("step-") && name.ends_with(".safetensors"))
      newest = std::max<std::uint64_t>(newest, std::stoull(name.substr(5)));
  }
  return newest;
}

class Ends : public testing::TestWithParam<int> {
 protected:
  /// Two ranks in the middle of their steps.
  void start(const std::string& every) {
    std::string records;
    for (int i = 0; i < 29; ++i)
      records += std::string(1, static_cast<char>(i % 10)) + std::string(3072, 'x');
    const std::string data = folder_.write("data.bin", records);
    const std::string address = test::free_address();
    for (int rank = 0; rank < 2; ++rank)
      ranks_.push_back(std::make_unique<Program>(
          std::vector<std::string>{"train", "--model", "cifar10", "--data", data, "--batch", "2",
                                   "--epochs", "100000", "--quiet", "--schedule", "constant:0.01",
                                   "--checkpoint", kept(), "--checkpoint-every", every,
                                   "--peer-timeout", "3"},
          "",
          std::vector<std::string>{"RANK=" + std::to_string(rank), "WORLD_SIZE=2",
                                   "MASTER_ADDR=127.0.0.1",
                                   "MASTER_PORT=" + address.substr(address.find(':') + 1)}));
    for (int tries = 0; tries < 8000 && newest_in(kept()) == 0; ++tries) {
      for (const auto& rank : ranks_) ASSERT_FALSE(rank->ended()) << rank->written_to_stderr();
      usleep(10'000);
    }
    ASSERT_GT(newest_in(kept()), 0U);
  }
  std::string kept() const { return folder_ / "checkpoints"; }
  Program& rank(int number) { return *ranks_[static_cast<std::size_t>(number)]; }

 private:
  test::TempFolder folder_;
  std::vector<std::unique_ptr<Program>> ranks_;
};

TEST_P(Ends, OnePositionAtSigterm) {
  const TimeLimit limit(110);
  start("7");
  if (HasFatalFailure()) return;
  rank(GetParam()).signal(SIGTERM);
  for (const int number : {0, 1}) {
    const Outcome outcome = rank(number).wait(60);
    EXPECT_EQ(outcome.code, 0) << number << ": " << outcome.err;
  }
  EXPECT_GT(newest_in(kept()), 0U);
}

TEST_P(Ends, WithoutAPeerNoCheckpointIsMade) {
  const TimeLimit limit(110);
  start("1");
  if (HasFatalFailure()) return;
  const int left = GetParam();
  // Both stand still, so that it is known which checkpoint is the newest.
  rank(1 - left).signal(SIGSTOP);
  rank(left).signal(SIGSTOP);
  const std::uint64_t before = newest_in(kept());
  rank(left).signal(SIGTERM);
  rank(1 - left).signal(SIGKILL);
  rank(left).signal(SIGCONT);
  const Outcome outcome = rank(left).wait(60);
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_NE(outcome.err.find("rank " + std::to_string(1 - left)), std::string::npos) << outcome.err;
  // The step that was exchanged when they stood still may have been saved.
  EXPECT_LE(newest_in(kept()), before + (left == 0 ? 1 : 0));
}

INSTANTIATE_TEST_SUITE_P(AtRank, Ends, testing::Values(0, 1));

}  // namespace
}  // namespace penstock
