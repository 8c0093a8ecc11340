#include "tests/storm/victim.h"

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <dirent.h>
#include <execinfo.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/sanitizer.h"

namespace penstock::storm {
namespace {

constexpr int kHangMs = test::kAddressSanitizer ? 60000 : 20000;

Report* the_report = nullptr;  // of this victim, for its signal handlers

void keep_stack(int) {
  const int saved = errno;
  const int at = the_report->stack_count.fetch_add(1);
  if (at < static_cast<int>(the_report->stacks.size())) {
    Stack& stack = the_report->stacks[static_cast<std::size_t>(at)];
    stack.size = ::backtrace(stack.frames.data(), static_cast<int>(stack.frames.size()));
  }
  errno = saved;
}

void die(int number) {
  keep_stack(number);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

/// Every thread of the process keeps its stack.
void keep_all_stacks(int) {
  DIR* const tasks = ::opendir("/proc/self/task");
  while (const dirent* task = tasks != nullptr ? ::readdir(tasks) : nullptr) {
    const int thread = std::atoi(task->d_name);
    if (thread <= 0) continue;
    ::syscall(SYS_tgkill, ::getpid(), thread, SIGUSR2);
    ::usleep(2000);
  }
  ::_exit(0);
}

/// Who leaves by exit() is a library that gives up.
void keep_stack_at_exit() {
  keep_stack(0);
}

void handle_ends() {
  std::atexit(keep_stack_at_exit);
  if constexpr (!test::kAddressSanitizer) {
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(number, die);
  }
  std::signal(SIGABRT, die);
  std::signal(SIGUSR1, keep_all_stacks);
  std::signal(SIGUSR2, keep_stack);
}

}  // namespace

Victims::Victims(const Row& row, std::string folder) : row_(row), folder_(std::move(folder)) {
  void* const shared =
      ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::runtime_error("no memory for the report");
  report_ = new (shared) Report;
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // loads what it needs
}

Victims::~Victims() {
  ::munmap(report_, sizeof(Report));
}

template <typename Work>
Victims::Ended Victims::fork_and_watch(Work work) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  report_->stack_count = 0;
  report_->complaint[0] = '\0';
  const pid_t process = ::fork();
  if (process < 0) throw std::runtime_error("no process");
  if (process == 0) {
    ::close(ends[0]);
    the_report = report_;
    handle_ends();
    work(ends[1]);
    ::_exit(0);
  }
  ::close(ends[1]);
  Ended ended;
  for (;;) {
    pollfd ready{ends[0], POLLIN, 0};
    char byte = 0;
    if (::poll(&ready, 1, kHangMs) == 0) {
      ended.hung = true;
      ::kill(process, SIGUSR1);
      ::poll(&ready, 1, 1000);
      ::kill(process, SIGKILL);
      break;
    }
    if (::read(ends[0], &byte, 1) != 1) break;
    ++ended.places;
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(process, &status, 0);
  if (WIFEXITED(status)) {
    ended.code = ended.hung ? 0 : WEXITSTATUS(status);
  } else if (!ended.hung) {
    ended.signal = WTERMSIG(status);
  }
  ended.complaint = report_->complaint.data();
  return ended;
}

void Victims::learn(bool warm) {
  const Ended ended = fork_and_watch([&](int pipe) {
    static Delivered out;
    row_.run(folder_, out);
    for (int i = 0; i < (warm ? 2 : 0); ++i) {
      out.clear();
      begin(LONG_MAX / 2, 0);
      row_.run(folder_, out);
      report_->calls = end().calls;
    }
    const auto entries = out.entries();
    if (out.errors() > 0 || out.full()) ::_exit(1);
    std::ranges::copy(entries, report_->clean.begin());
    report_->clean_size = entries.size();
    static_cast<void>(!::write(pipe, "", 1));
  });
  if (ended.places != 1 || ended.signal != 0 || ended.code != 0)
    throw std::runtime_error(std::string(row_.name) + " fails by itself");
}

void Victims::complain(const char* what, const char* when) {
  std::snprintf(report_->complaint.data(), report_->complaint.size(), "%s, %s", what, when);
}

bool Victims::run_place(long place, long burst, bool check, Delivered& out) {
  const std::span<const std::uint64_t> clean(report_->clean.data(), report_->clean_size);
  out.clear();
  begin(place, burst);
  row_.run(folder_, out);
  const Tally tally = end();
  for (std::size_t i = 0; i < tally.failed.size(); ++i) report_->failed[i] += tally.failed[i];
  report_->errors += out.errors();
  report_->batches += std::ranges::count(out.entries(), Delivered::kEndOfBatch);
  const char* what = wrong(clean, out);
  const char* when = "while allocations failed";
  if (*what == '\0' && tally.all_failed() == 0 && out.errors() > 0) what = "an error for nothing";
  if (*what == '\0' && check) {
    when = "in the next run, when none failed";
    out.clear();
    row_.run(folder_, out);
    what = out.errors() > 0 ? "an error" : wrong(clean, out);
  }
  if (*what == '\0') return true;
  complain(what, when);
  return false;
}

Victims::Ended Victims::run(std::span<const long> places, long burst, bool check_each) {
  return fork_and_watch([&](int pipe) {
    static Delivered out;
    for (const long place : places) {
      const bool good = run_place(place, burst, check_each, out);
      static_cast<void>(!::write(pipe, "", 1));
      if (!good) return;
    }
  });
}

}  // namespace penstock::storm
