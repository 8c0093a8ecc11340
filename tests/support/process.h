// Another process, which a test waits for or kills.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace penstock::test {

/// A process that is killed and awaited at the end of the scope.
class Process {
 public:
  /// `variables`: "NAME=value", added to the environment.
  explicit Process(std::vector<std::string> arguments, std::vector<std::string> variables = {}) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    for (char** variable = environ; *variable != nullptr; ++variable)
      environment.push_back(*variable);
    environment.push_back(nullptr);
    if (posix_spawn(&process_, argv[0], nullptr, nullptr, argv.data(), environment.data()) != 0)
      throw std::runtime_error("can't start " + arguments[0]);
  }
  Process(Process&& other) noexcept : process_(std::exchange(other.process_, -1)) {}
  Process& operator=(Process&&) = delete;
  ~Process() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

  pid_t id() const noexcept { return process_; }
  void signal(int number) const { kill(process_, number); }
  /// Waits for the end. Returns the exit code; for a killed process, 128 + the signal.
  int wait() {
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t process_ = -1;
};

}  // namespace penstock::test
