#include "report/reporter.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <pthread.h>

#include <penstock/durable_file.h>
#include <penstock/error.h>
#include <penstock/report.h>

#include "pipeline/core/log_sink.h"
#include "report/metrics.h"
#include "report/rank.h"
#include "report/trace.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kAtMostEvery{1000};
constexpr std::chrono::milliseconds kNotAgain{-1};

// The state that a signal handler and a child of fork can reach. Constant once the handler is set.
Service* service_of_process = nullptr;
std::atomic<bool>* asked_of_process = nullptr;
std::atomic<int>* last_of_process = nullptr;
std::atomic<bool> in_child{false};

// The signals of `report_at_signal`, which wait for the first run: before it the rank is not known,
// and a child of fork may want reports of its own.
Mutex ends_mutex;
std::array<bool, 65> ends_wanted GUARDED_BY(ends_mutex){};
bool ends_can_be_set GUARDED_BY(ends_mutex) = false;

void on_signal(int) {
  const int error = errno;
  asked_of_process->store(true, std::memory_order_relaxed);
  service_of_process->wake();
  errno = error;
}

/// The action that the signal had is restored by SA_RESETHAND.
void on_end(int signal) {
  const int error = errno;
  last_of_process->store(signal, std::memory_order_relaxed);
  service_of_process->wake();
  errno = error;
}

bool given(const char* variable) noexcept {
  const char* const text = std::getenv(variable);
  return text != nullptr && *text != '\0';
}

bool is_default(int signal) noexcept {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == SIG_DFL;
}

void set_handler(int signal, void (*handler)(int), unsigned flags) noexcept {
  struct sigaction ours {};
  ours.sa_handler = handler;
  ours.sa_flags = static_cast<int>(SA_RESTART | flags);
  sigemptyset(&ours.sa_mask);
  ::sigaction(signal, &ours, nullptr);
}

/// Sets the handler, unless the program has set one meanwhile.
void set_end(int signal) noexcept {
  if (is_default(signal)) set_handler(signal, on_end, SA_RESETHAND);
}

/// Ends the process by the signal. The calling thread is ours, and takes no signals.
void end_by(int signal) noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  std::signal(signal, SIG_DFL);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
}

/// Runs in the child. It has no use for our signal handlers, and must not keep the parent's port
/// open.
void on_fork() {
  in_child.store(true, std::memory_order_relaxed);
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0) continue;
    if (now.sa_handler == on_signal || now.sa_handler == on_end) std::signal(signal, SIG_DFL);
  }
  if (service_of_process != nullptr) service_of_process->abandon();
}

void warn(const std::string& what) noexcept {
  if (log_sink_given())
    log(LogLevel::warning, what);
  else
    std::fprintf(stderr, "penstock: warning: %s\n", what.c_str());
}

void warn_of_current_exception(const char* doing) noexcept {
  const Status why = status_from_current_exception();
  try {
    warn(std::string(doing) + ": " + why.error().what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "penstock: warning: %s: no memory\n", doing);
  }
}

/// Metrics have no password. Throws Error{invalid_argument} for an address that other machines can
/// reach, unless the environment allows it.
void check_exposure(const Endpoint& where) {
  const char* const allowed = std::getenv("PENSTOCK_INSECURE_METRICS");
  if (is_loopback(where) || (allowed != nullptr && std::strcmp(allowed, "1") == 0)) return;
  throw Error(ErrorCode::invalid_argument,
              "no metrics are served at " + where.host +
                  ", which is not loopback: other machines could read them without a password; "
                  "PENSTOCK_INSECURE_METRICS=1 allows that");
}

}  // namespace

Reporter* Reporter::asked_for() noexcept {
  static Reporter* const instance = begin();
  return in_child.load(std::memory_order_relaxed) ? nullptr : instance;
}

Reporter* Reporter::begin() noexcept {
  const char* const file = std::getenv("PENSTOCK_REPORT");
  const char* const trace = std::getenv("PENSTOCK_TRACE");
  const char* const endpoint = std::getenv("PENSTOCK_METRICS");
  const auto given = [](const char* text) { return text != nullptr && *text != '\0'; };
  if (!given(file) && !given(trace) && !given(endpoint)) return nullptr;
  ::pthread_atfork(nullptr, nullptr, on_fork);
  try {
    // Never destroyed, because runs may end after everything else.
    static Reporter* const instance =
        new Reporter(given(file) ? with_process(file) : "", given(trace) ? with_process(trace) : "",
                     given(endpoint) ? endpoint : nullptr);
    std::atexit([] { instance->finish(); });
    return instance;
  } catch (...) {
    warn_of_current_exception("no reports will be written");
    return nullptr;
  }
}

Reporter::Reporter(std::string file, std::string trace, const char* endpoint)
    : file_(std::move(file)), trace_(std::move(trace)) {
  if (!trace_.empty()) begin_trace();
  try {
    start(endpoint);
  } catch (...) {
    service_.reset();
    warn_of_current_exception(writes() ? "reports are written only at the end"
                                       : "no metrics are served");
  }
}

void Reporter::start(const char* endpoint) {
  service_ = std::make_unique<Service>(
      ServiceDuties{[this] { return woken(); }, [this] { return metrics(); }});
  bool needed = writes();
  if (endpoint != nullptr) {
    try {
      const Endpoint where = parse_endpoint(with_process(endpoint));
      check_exposure(where);
      const Endpoint at = service_->listen(where);
      needed = true;
      const bool six = at.host.find(':') != std::string::npos;
      log(LogLevel::info, "metrics are served at http://" + (six ? "[" + at.host + "]" : at.host) +
                              ":" + std::to_string(at.port) + "/metrics");
    } catch (const Error&) {
      warn_of_current_exception("PENSTOCK_METRICS");
    }
  }
  if (!needed) return service_.reset();
  service_->start();
  service_of_process = service_.get();
  asked_of_process = &asked_;
  last_of_process = &last_;
  if (writes()) take_signals();
}

void Reporter::take_signals() noexcept {
  if (is_default(SIGUSR1)) set_handler(SIGUSR1, on_signal, 0);
  MutexLock lock(ends_mutex);
  ends_can_be_set = true;
  for (std::size_t signal = 1; signal < ends_wanted.size(); ++signal)
    if (ends_wanted[signal]) set_end(static_cast<int>(signal));
}

void Reporter::run_ended() noexcept {
  if (!writes()) return;
  stale_.store(true, std::memory_order_release);
  if (service_) service_->wake();
}

std::chrono::milliseconds Reporter::woken() noexcept {
  if (!writes()) return kNotAgain;
  if (const int last = last_.exchange(0, std::memory_order_relaxed); last != 0) {
    write();
    end_by(last);
  }
  if (!asked_.exchange(false)) {
    if (!stale_.load(std::memory_order_acquire)) return kNotAgain;
    MutexLock lock(file_mutex_);
    const auto since =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - written_);
    if (since < kAtMostEvery) return kAtMostEvery - since;
  }
  write();
  return kNotAgain;
}

std::string Reporter::metrics() noexcept {
  try {
    return metrics_text(runs_.live(), counters_);
  } catch (...) {
    warn_of_current_exception("metrics");
    return {};
  }
}

void Reporter::write() noexcept {
  MutexLock lock(file_mutex_);
  stale_.store(false, std::memory_order_release);
  written_ = Clock::now();
  const auto guarded = [](const char* variable, bool& warned, const auto& body) {
    try {
      body();
    } catch (...) {
      if (!std::exchange(warned, true)) warn_of_current_exception(variable);
    }
  };
  if (!file_.empty())
    guarded("PENSTOCK_REPORT", warned_of_file_, [this] {
      const std::vector<NamedRun> runs = runs_.all();
      write_durably(file_, file_.ends_with(".json") ? runs_json(runs) : runs_text(runs));
    });
  if (!trace_.empty())
    guarded("PENSTOCK_TRACE", warned_of_trace_, [this] { write_durably(trace_, trace_so_far()); });
}

void Reporter::finish() noexcept {
  if (in_child.load(std::memory_order_relaxed)) return;
  if (service_) service_->stop();
  if (writes()) write();
}

bool report_at_signal(int signal) {
  constexpr std::array kThatEnd{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR2, SIGXCPU};
  if (std::ranges::find(kThatEnd, signal) == kThatEnd.end())
    throw Error(
        ErrorCode::invalid_argument,
        "signal " + std::to_string(signal) +
            " can't write a report: it can't be caught, has another use, or ends no process");
  if (!given("PENSTOCK_REPORT") && !given("PENSTOCK_TRACE")) return false;
  if (!is_default(signal)) return false;
  MutexLock lock(ends_mutex);
  ends_wanted[static_cast<std::size_t>(signal)] = true;
  if (ends_can_be_set) set_end(signal);
  return true;
}

}  // namespace penstock
