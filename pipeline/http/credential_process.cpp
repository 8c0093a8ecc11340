#include "pipeline/http/credential_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <penstock/error.h>
#include <penstock/internal/posix.h>

extern char** environ;

namespace penstock::http {
namespace {

using ProcessClock = std::chrono::steady_clock;

constexpr std::size_t kMostPrinted = 64 << 10;

Error process_error(const std::string& why) {
  return Error(ErrorCode::unavailable, "credential_process " + why);
}

/// A child process that is killed and awaited at the end of the scope.
class CredentialProcess {
 public:
  explicit CredentialProcess(std::vector<std::string> words) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw process_error(std::strerror(errno));
    out_ = UniqueFd(ends[0]);
    const UniqueFd in(ends[1]);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, in.get(), 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    const int failed =
        ::posix_spawnp(&process_, arguments[0], &files, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0) {
      process_ = -1;
      throw process_error(std::string("can't be started: ") + std::strerror(failed));
    }
  }
  CredentialProcess(const CredentialProcess&) = delete;
  CredentialProcess& operator=(const CredentialProcess&) = delete;
  ~CredentialProcess() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  /// Returns its whole output. Throws if that takes too long or is too large.
  std::string printed(ProcessClock::time_point until) const {
    std::string text;
    std::array<char, 4096> bytes{};
    while (true) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until - ProcessClock::now());
      if (left.count() <= 0) throw process_error("takes too long");
      pollfd ready{out_.get(), POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1000))) <= 0)
        continue;
      const ssize_t n = ::read(out_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return text;
      text.append(bytes.data(), static_cast<std::size_t>(n));
      if (text.size() > kMostPrinted) throw process_error("prints too much");
    }
  }

  /// Waits for its end. Throws unless it ends well.
  void end(ProcessClock::time_point until) {
    while (true) {
      int status = 0;
      const pid_t ended = ::waitpid(process_, &status, WNOHANG);
      if (ended == 0 && ProcessClock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
      if (ended == 0) throw process_error("takes too long");
      process_ = -1;
      // A program that ignores SIGCHLD does not learn how its children end.
      if (ended > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        throw process_error(WIFEXITED(status)
                                ? "ended with exit code " + std::to_string(WEXITSTATUS(status))
                                : "was killed by signal " + std::to_string(WTERMSIG(status)));
      return;
    }
  }

 private:
  pid_t process_ = -1;
  UniqueFd out_;
};

}  // namespace

std::vector<std::string> command_words(const std::string& line) {
  std::vector<std::string> words;
  bool within = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == 0 && (c == ' ' || c == '\t')) {
      within = false;
      continue;
    }
    if (!within) words.emplace_back();
    within = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < line.size() &&
               (quote == 0 || line[i + 1] == '"' || line[i + 1] == '\\')) {
      words.back() += line[++i];
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) throw process_error("has an unterminated quote");
  return words;
}

LentCredentials run_credential_process(const std::string& line, std::chrono::milliseconds limit) {
  std::vector<std::string> words = command_words(line);
  if (words.empty()) throw process_error("names no command");
  const auto until = ProcessClock::now() + limit;
  CredentialProcess process(std::move(words));
  const std::string text = process.printed(until);
  process.end(until);
  LentCredentials lent = parse_lent_credentials(text);
  // Credentials that do not expire are renewed only if they are refused.
  if (lent.expires == 0) lent.expires = std::numeric_limits<std::int64_t>::max();
  return lent;
}

}  // namespace penstock::http
