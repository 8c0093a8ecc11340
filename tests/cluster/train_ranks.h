// Processes of `penstock train` that form one job, each started directly.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <penstock/rng.h>

#include "tests/support/free_port.h"
#include "tests/support/program.h"

namespace penstock::test {

constexpr int kTowers = 4;

/// Writes records in CIFAR-10's binary format, with random pixels.
inline std::string write_cifar(const TempFolder& folder, int records) {
  Rng rng(5, 0, 0);
  std::string bytes;
  for (int i = 0; i < records; ++i) {
    bytes.push_back(static_cast<char>(rng.below(10)));
    for (int p = 0; p < 3072; ++p) bytes.push_back(static_cast<char>(rng.below(256)));
  }
  return folder.write("data.bin", bytes);
}

inline std::vector<std::string> flags_of(const std::string& data, std::vector<std::string> more) {
  std::vector<std::string> flags{
      "train",           "--model",    "cifar10",       "--data", data,
      "--batch",         "2",          "--epochs",      "2",      "--quiet",
      "--deterministic", "--schedule", "constant:0.01", "--json", "-"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

inline std::string devices(int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i == 0 ? "host:" : ",host:") + std::to_string(i);
  return list;
}

/// Starts the ranks of a job, each with `each` devices. `own`: further flags for each rank.
inline std::vector<std::unique_ptr<Program>> start(
    int processes, int each, std::vector<std::string> flags,
    const std::vector<std::vector<std::string>>& own = {}) {
  flags.insert(flags.end(), {"--device", devices(each), "--peer-timeout", "3"});
  const std::string port = std::to_string(free_port());
  std::vector<std::unique_ptr<Program>> ranks;
  for (int rank = 0; rank < processes; ++rank) {
    std::vector<std::string> variables;
    if (processes > 1)
      variables = {"RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(processes),
                   "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port};
    std::vector<std::string> all = flags;
    if (!own.empty()) {
      const std::vector<std::string>& mine = own[static_cast<std::size_t>(rank)];
      all.insert(all.end(), mine.begin(), mine.end());
    }
    ranks.push_back(std::make_unique<Program>(all, "", variables));
  }
  return ranks;
}
/// Starts a job with kTowers towers in total.
inline std::vector<std::unique_ptr<Program>> start(int processes, std::vector<std::string> flags) {
  return start(processes, kTowers / processes, std::move(flags));
}

/// Returns the output of rank 0 after all ranks have ended well.
inline nlohmann::json result_of(std::vector<std::unique_ptr<Program>> ranks) {
  nlohmann::json result;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Outcome outcome = ranks[rank]->wait(100);
    EXPECT_EQ(outcome.code, 0) << "rank " << rank << ": " << outcome.err;
    if (outcome.code != 0) continue;
    if (rank == 0) {
      result = outcome.json();
    } else {
      EXPECT_EQ(outcome.out, "") << "rank 0 speaks for all";
    }
  }
  return result;
}
inline nlohmann::json run(int processes, const std::vector<std::string>& flags) {
  return result_of(start(processes, flags));
}
inline nlohmann::json run(int processes, int each, const std::vector<std::string>& flags) {
  return result_of(start(processes, each, flags));
}
/// Waits for the first checkpoint, so that the job is in the middle of its steps.
inline void wait_for_steps(const std::vector<std::unique_ptr<Program>>& ranks,
                           const std::string& folder) {
  const auto trains = [&] {
    for (const auto& rank : ranks) ASSERT_FALSE(rank->ended()) << rank->written_to_stderr();
  };
  const auto saved = [&] {
    std::error_code none_yet;
    for (const auto& file : std::filesystem::directory_iterator(folder, none_yet))
      if (file.path().extension() == ".safetensors") return true;
    return false;
  };
  for (int tries = 0; tries < 6000 && !saved(); ++tries) usleep(10'000);
  ASSERT_TRUE(saved());
  trains();
}

}  // namespace penstock::test
