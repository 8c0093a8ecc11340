// A rank in a process of its own, for tests that kill it.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "tests/support/files.h"
#include "tests/support/places.h"

extern char** environ;

namespace penstock::cluster::test {

/// A process of cluster_rank (rank.cpp). Killed at the end of the scope.
class RankProcess {
 public:
  RankProcess(const std::string& address, int rank, int world, int timeout_ms,
              const std::string& work)
      : out_(folder_ / "out") {
    std::vector<std::string> words = {penstock::test::built("cluster_rank"),
                                      address,
                                      std::to_string(rank),
                                      std::to_string(world),
                                      std::to_string(timeout_ms),
                                      work};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, out_.c_str(), O_CREAT | O_WRONLY, 0600);
    const int failed = posix_spawn(&process_, argv[0], &files, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0) throw std::runtime_error("can't start a rank");
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  pid_t id() const noexcept { return process_; }
  void signal(int number) const { kill(process_, number); }
  std::string said() const { return penstock::test::read_file(out_); }
  int wait() {
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  penstock::test::TempFolder folder_;
  std::string out_;
  pid_t process_ = -1;
};

}  // namespace penstock::cluster::test
