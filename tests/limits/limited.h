// Runs of the program under limits of its process.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/places.h"

namespace penstock::test {

/// The result of a run.
struct Ended {
  int code = -1;  ///< exit code, or 128 + the signal
  bool hung = false;
  std::string out;
  std::string err;
};

/// Runs the program after calling `limit` in its process. Kills it after 20 s. `variables`:
/// "NAME=value". Keeps its output in files in `folder`.
inline Ended run_limited(const TempFolder& folder, std::vector<std::string> arguments,
                         const std::function<void()>& limit,
                         std::vector<std::string> variables = {},
                         const std::string& program = program_path()) {
  arguments.insert(arguments.begin(), program);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  const std::string out = folder / "out";
  const std::string err = folder / "err";
  const pid_t child = ::fork();
  if (child == 0) {
    const auto redirect = [](const std::string& path, int to) {
      const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
      if (file < 0 || ::dup2(file, to) < 0) ::_exit(126);
    };
    redirect(out, STDOUT_FILENO);
    redirect(err, STDERR_FILENO);
    limit();
    ::execve(program.c_str(), argv.data(), environment.data());
    ::_exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  Ended ended;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ended.hung = true;
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.out = read_file(out);
  ended.err = read_file(err);
  return ended;
}

/// Returns the lines that are errors, and not warnings.
inline std::vector<std::string> errors_in(const std::string& text) {
  std::vector<std::string> errors;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (!line.empty() && !line.starts_with("penstock: warning: ")) errors.push_back(line);
    at = end + 1;
  }
  return errors;
}

}  // namespace penstock::test
