// A process of any command, for tests that end it in different ways.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "tests/support/files.h"

extern char** environ;

namespace penstock::cluster::test {

/// A process whose output, errors included, goes to a file. Killed at the end of the scope.
class Child {
 public:
  Child(std::vector<std::string> words, std::vector<std::string> variables, std::string out)
      : out_(std::move(out)) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    for (char** variable = environ; *variable != nullptr; ++variable)
      environment.push_back(*variable);
    environment.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, out_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    const int failed =
        posix_spawnp(&process_, argv[0], &files, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0) throw std::runtime_error("can't start " + words[0]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  void signal(int number) const {
    if (process_ > 0) kill(process_, number);
  }
  std::string said() const { return penstock::test::read_file(out_); }
  /// Waits for the end. Returns the exit code; 128 + the signal; or -1 if it has not ended by then.
  int wait(std::chrono::steady_clock::time_point until) {
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(2))) {
      int status = 0;
      if (process_ > 0 && waitpid(process_, &status, WNOHANG) == process_) {
        process_ = -1;
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      if (process_ < 0 || std::chrono::steady_clock::now() >= until) return code_;
    }
  }

 private:
  const std::string out_;
  pid_t process_ = -1;
  int code_ = -1;
};

}  // namespace penstock::cluster::test
