// Five of the schedules of sync_replicas with real processes: two servers, and a process for each
// replica, of which one is killed with -9 where the schedule loses it. The others stand on the
// virtual clock, with these (tests/towers/servers/sync_server_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cluster/child.h"
#include "tests/cluster/free_address.h"
#include "tests/support/files.h"
#include "tests/support/places.h"
#include "tests/support/time_limit.h"
#include "tests/towers/servers/schedules.h"

namespace penstock::cluster {
namespace {

using namespace std::chrono_literals;
using penstock::test::built;
using penstock::test::free_address;
using penstock::test::TempFolder;
using penstock::test::TimeLimit;
using test::Child;
using towers::test::WorkedOut;
using Clock = std::chrono::steady_clock;

constexpr const char* kPeerTimeoutMs = "1500";

/// cluster_served_replica; killed at the end of the scope.
class Replica {
 public:
  explicit Replica(std::vector<std::string> words) {
    int to[2];
    int from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
      throw std::runtime_error("no pipes");
    words.insert(words.begin(), built("cluster_served_replica"));
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, to[0], 0);
    posix_spawn_file_actions_adddup2(&files, from[1], 1);
    const int failed = posix_spawn(&process_, argv[0], &files, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    close(to[0]);
    close(from[1]);
    to_ = fdopen(to[1], "w");
    from_ = fdopen(from[0], "r");
    if (failed != 0) throw std::runtime_error("can't start a replica");
  }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  ~Replica() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    fclose(to_);
    fclose(from_);
  }

  std::string line() {
    std::string text;
    for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_))
      text.push_back(static_cast<char>(c));
    return text;
  }
  std::string ask(const std::string& what) {
    std::fprintf(to_, "%s\n", what.c_str());
    std::fflush(to_);
    return line();
  }

 private:
  pid_t process_ = -1;
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
};

class Schedule {
 public:
  explicit Schedule(const WorkedOut& worked_out) : worked_out_(worked_out) {
    for (int server = 0; server < 2; ++server)
      addresses_ += (server > 0 ? "," : "") + free_address();
    for (int server = 0; server < 2; ++server)
      servers_.push_back(std::make_unique<Child>(
          std::vector<std::string>{built("cluster_served_victim"), "ps", std::to_string(server),
                                   std::to_string(worked_out.total), addresses_, "sync_replicas",
                                   folder_ / "kept", folder_ / "log", kPeerTimeoutMs},
          std::vector<std::string>{}, folder_ / ("ps" + std::to_string(server))));
    for (int process = 0; process < worked_out.total; ++process) {
      replicas_.push_back(start(process));
      EXPECT_EQ(replicas_.back()->line(), "ready");
    }
  }

  void play() {
    std::istringstream words(worked_out_.play);
    for (std::string word; words >> word && !testing::Test::HasFailure();) {
      const bool is_plain = word[0] >= '0' && word[0] <= '9';
      const auto replica = static_cast<std::size_t>(std::stoi(is_plain ? word : word.substr(1)));
      switch (word[0]) {
        case '-':
          EXPECT_EQ(replicas_[replica]->ask("leave"), "left");
          break;
        case 'x':
          replicas_[replica].reset();
          wait_for_loss();
          break;
        case '+':
          replicas_[replica] = start(static_cast<int>(replica));
          EXPECT_EQ(replicas_[replica]->line(), "ready");
          --lost_;
          break;
        default: {
          const std::string came = replicas_[replica]->ask("push");
          EXPECT_TRUE(came.starts_with("applied ") || came.starts_with("dropped ")) << came;
        }
      }
    }
  }

  std::string figures() { return replicas_[0]->ask("figures"); }
  std::string tokens() {
    std::string all;
    for (const auto& replica : replicas_)
      all += (all.empty() ? "" : " ") + (replica ? replica->ask("token") : "-");
    return all;
  }
  /// All servers end well on the chief's word.
  void end() {
    EXPECT_EQ(replicas_[0]->ask("end"), "ended");
    for (const auto& server : servers_)
      EXPECT_EQ(server->wait(Clock::now() + 20s), 0) << server->said();
  }

 private:
  std::unique_ptr<Replica> start(int process) {
    return std::make_unique<Replica>(std::vector<std::string>{
        std::to_string(process), std::to_string(worked_out_.total),
        std::to_string(worked_out_.aggregate), addresses_, kPeerTimeoutMs});
  }
  void wait_for_loss() {
    const std::string expected = " " + std::to_string(++lost_);
    for (int tries = 0; tries < 400 && !figures().ends_with(expected); ++tries)
      std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(figures().ends_with(expected)) << figures();
  }

  const WorkedOut worked_out_;
  const TempFolder folder_;
  std::string addresses_;
  std::vector<std::unique_ptr<Child>> servers_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  int lost_ = 0;
};

class Schedules : public testing::TestWithParam<const char*> {};

TEST_P(Schedules, GoWithProcessesAsWorkedOutByHand) {
  const TimeLimit limit(100);
  const std::vector<WorkedOut> all = towers::test::schedules();
  const auto found = std::ranges::find(all, GetParam(), &WorkedOut::name);
  ASSERT_NE(found, all.end());
  Schedule schedule(*found);
  schedule.play();
  std::ostringstream expected;
  expected << found->steps << " " << found->applied << " " << found->dropped << " "
           << found->pending << " ";
  EXPECT_EQ(schedule.figures().rfind(expected.str(), 0), 0U)
      << schedule.figures() << ", expected " << expected.str();
  std::string tokens = found->tokens;
  std::ranges::replace(tokens, '.', '-');
  EXPECT_EQ(schedule.tokens(), tokens);
  schedule.end();
}

// Who is slow, an old token, who leaves, who dies, who comes late.
INSTANTIATE_TEST_SUITE_P(Of, Schedules,
                         testing::Values("the slow one is two behind",
                                         "an old token is dropped too",
                                         "who is left completes updates",
                                         "nobody waits for a dead backup",
                                         "a late joiner gets a token of the next update"),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace penstock::cluster
