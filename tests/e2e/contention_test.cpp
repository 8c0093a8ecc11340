// Three processes that want one --state: one of them runs and the others say which, whoever is
// killed when.
//
// PENSTOCK_FIGHTS: how many kills (15); tools/reliability.sh asks for 200.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include <gmock/gmock.h>

#include <penstock/error.h>
#include <penstock/rng.h>
#include <penstock/state_file.h>

#include "pipeline/http/state_file.h"
#include "tests/support/figure.h"
#include "tests/support/program.h"
#include "tests/support/wait_until.h"

namespace penstock::test {
namespace {

using Flags = std::vector<std::string>;

int fights() {
  const char* wanted = std::getenv("PENSTOCK_FIGHTS");
  return wanted != nullptr ? std::atoi(wanted) : 15;
}

/// Whether the file is a whole state, or not there.
bool is_whole(const std::string& path) {
  const std::string bytes = read_file(path);
  if (bytes.empty()) return !std::filesystem::exists(path);
  try {
    parse_state_file(bytes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(Contention, ThreeConcurrentRuns) {
  const TempFolder folder;
  const Flags graph{"profile", "--quiet", "--range", "4000",      "--shuffle", "--batch",
                    "4",       "--seed",  "3",       "--step-ms", "0.2",       "--digests"};
  Flags whole = graph;
  whole.push_back(folder / "whole");
  ASSERT_EQ(run_program(whole).code, 0);
  Flags contender = graph;
  for (const std::string& word : {folder / "D", std::string("--state"), folder / "S",
                                  std::string("--save-every"), std::string("3")})
    contender.push_back(word);

  Rng random(7, 0, 0);
  const int kills = fights();
  int killed = 0;
  int refused = 0;
  int torn = 0;
  for (int round = 0; killed < kills; ++round) {
    ASSERT_LT(round, 3 * kills + 50);
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < 3; ++i) programs.push_back(std::make_unique<Program>(contender));
    // Two of them end by themselves: those that found it taken.
    const auto losers = [&] {
      return std::ranges::count_if(programs, [](const auto& p) { return p->ended(); });
    };
    ASSERT_TRUE(wait_until([&] { return losers() >= 2; }, std::chrono::seconds(100)));
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(60'000)));
    const auto winner = std::ranges::find_if(programs, [](const auto& p) { return !p->ended(); });
    if (winner != programs.end()) (*winner)->signal(SIGKILL);
    std::vector<std::string> runners;
    std::vector<Outcome> others;
    for (const auto& program : programs) {
      const std::string id = "process " + std::to_string(program->id()) + " has locked the file";
      const Outcome outcome = program->wait();
      killed += outcome.code == 128 + SIGKILL ? 1 : 0;
      if (outcome.code == 128 + SIGKILL || outcome.code == 0) {
        runners.push_back(id);
      } else {
        others.push_back(outcome);
      }
    }
    for (const Outcome& other : others) {
      EXPECT_EQ(other.code, 1) << other.err;
      EXPECT_TRUE(std::ranges::any_of(runners, [&](const std::string& id) {
        return other.err.find(id) != other.err.npos;
      })) << other.err;
    }
    refused += static_cast<int>(others.size());
    // Two may run one after the other, where the first comes to its end.
    EXPECT_GE(runners.size(), 1U);
    for (const char* name : {"S", "S.previous"}) torn += is_whole(folder / name) ? 0 : 1;
    if (runners.size() > 1 || winner == programs.end()) {
      EXPECT_EQ(read_file(folder / "D"), read_file(folder / "whole"));
      for (const char* name : {"S", "S.previous", "D"}) std::filesystem::remove(folder / name);
    }
  }
  const Outcome last = run_program(contender);
  EXPECT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(read_file(folder / "D"), read_file(folder / "whole"));
  EXPECT_EQ(torn, 0);
  figure("F48", "%d kills of the one that had the state, %d others were told which, torn states %d",
         killed, refused, torn);
}

}  // namespace
}  // namespace penstock::test
