// Runs the program `penstock` as a user does.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/files.h"
#include "tests/support/places.h"

extern char** environ;

namespace penstock::test {

struct Outcome {
  int code = -1;  ///< exit code; for a killed process, 128 + the signal
  std::string out;
  std::string err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

/// A run of the program, with its output in files. `out`: a file for stdout. `variables`:
/// "NAME=value", added to the environment. The process is killed and awaited at the end of the
/// scope.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments, std::string out = {},
                   std::vector<std::string> variables = {}) {
    arguments.insert(arguments.begin(), program_path());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    if (out.empty()) out = folder_ / "out";
    const std::string err = folder_ / "err";
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    for (char** variable = environ; *variable != nullptr; ++variable)
      environment.push_back(*variable);
    environment.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, out.c_str(), O_CREAT | O_WRONLY, 0600);
    posix_spawn_file_actions_addopen(&files, 2, err.c_str(), O_CREAT | O_WRONLY, 0600);
    const int failed =
        posix_spawn(&process_, argv[0], &files, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0) throw std::runtime_error("can't start " + arguments[0]);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

  pid_t id() const noexcept { return process_; }
  void signal(int number) const { kill(process_, number); }
  /// True once the process has ended.
  bool ended() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == process_;
  }
  std::string written_to_stderr() const { return read_file(folder_ / "err"); }

  /// Waits for the end. Kills the process after `limit_s` seconds, if that is not 0.
  Outcome wait(int limit_s = 0) {
    for (int left_ms = limit_s * 1000; limit_s > 0 && !ended(); left_ms -= 2) {
      if (left_ms <= 0) signal(SIGKILL);
      usleep(2000);
    }
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, read_file(folder_ / "out"), read_file(folder_ / "err")};
  }

 private:
  TempFolder folder_;
  pid_t process_ = -1;
};

inline Outcome run_program(std::vector<std::string> arguments, std::string out = {}) {
  return Program(std::move(arguments), std::move(out)).wait();
}

/// Returns the JSON that `penstock profile` writes with these flags. The test fails unless the
/// program exits with `code`.
inline nlohmann::json profile_json(std::vector<std::string> flags, int code = 0) {
  flags.insert(flags.begin(), "profile");
  for (const char* flag : {"--quiet", "--json", "-"}) flags.emplace_back(flag);
  const Outcome outcome = run_program(std::move(flags));
  EXPECT_EQ(outcome.code, code) << outcome.err;
  return outcome.json();
}

}  // namespace penstock::test
