#include "tools/penstock/signals.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include <unistd.h>

#include <penstock/file_system.h>

#include "tools/penstock/support/exit_code.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {
namespace {

bool to_terminal = false;  // does not change while signals are handled

// The functions below may run at any moment on any thread, so they use only system calls.

void say(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Prints the name without control characters, so that a file's name can't control a terminal.
void say_name(std::string_view name) noexcept {
  std::array<char, 256> part;
  while (!name.empty()) {
    const std::size_t n = std::min(name.size(), part.size());
    std::transform(name.begin(), name.begin() + n, part.begin(),
                   [](char c) { return (c >= 0 && c < ' ') || c == 0x7f ? '?' : c; });
    say({part.data(), n});
    name.remove_prefix(n);
  }
}

void explain_bus_error(int signal, siginfo_t* info, void*) noexcept {
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  const char* const file = info->si_code > 0 ? mapped_file_at(info->si_addr) : nullptr;
  if (file == nullptr) {  // not ours: ends the process as without a handler
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  while (said.test_and_set()) ::pause();
  if (to_terminal) say(Canvas::kRestore);
  say("penstock: ");
  say_name(file);
  say(" was truncated, or its device failed, while --io mmap had it mapped; with --io pread, only "
      "the records concerned fail\n");
  ::_exit(kFailed);
}

}  // namespace

void handle_file_signals() {
  std::signal(SIGXFSZ, SIG_IGN);
  to_terminal = ::isatty(STDERR_FILENO) == 1;
  struct sigaction action {};
  action.sa_sigaction = explain_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace penstock::tool
