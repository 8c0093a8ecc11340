// Reports for programs that were not changed for them: those that the environment variables
// PENSTOCK_REPORT, PENSTOCK_METRICS and PENSTOCK_TRACE request.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include <penstock/internal/thread_annotations.h>

#include "report/metrics.h"
#include "report/observed_runs.h"
#include "report/service.h"

namespace penstock {

/// The process's one reporter, with one thread. Each kind of failure is reported once as a warning,
/// to the log or, without a log sink, to stderr. Lives as long as the process. In a child of `fork`
/// it does nothing, and SIGUSR1 has its default action again.
class Reporter {
 public:
  /// Returns the reporter; null if the environment requests nothing. The first call reads the
  /// environment and starts the reporter.
  static Reporter* asked_for() noexcept;

  ObservedRuns& runs() noexcept { return runs_; }
  /// Says that a run has ended. The file is written again, at most once a second.
  void run_ended() noexcept;

 private:
  Reporter(std::string file, std::string trace, const char* endpoint);

  static Reporter* begin() noexcept;
  void start(const char* endpoint);
  bool writes() const noexcept { return !file_.empty() || !trace_.empty(); }
  void take_signals() noexcept;
  std::chrono::milliseconds woken() noexcept;
  std::string metrics() noexcept;
  void write() noexcept EXCLUDES(file_mutex_);
  void finish() noexcept;

  const std::string file_;   // empty: no report file
  const std::string trace_;  // empty: no trace file
  ObservedRuns runs_;
  std::atomic<bool> asked_{false};  // the signal has requested a report
  std::atomic<int> last_{0};        // the signal that ends the process once a report is written
  std::atomic<bool> stale_{false};  // a run has ended since the file was last written
  SlowMutex file_mutex_;            // held while a report is written
  bool warned_of_file_ GUARDED_BY(file_mutex_) = false;
  bool warned_of_trace_ GUARDED_BY(file_mutex_) = false;
  std::chrono::steady_clock::time_point written_ GUARDED_BY(file_mutex_){};
  CounterFloor counters_;             // used by the service's thread only
  std::unique_ptr<Service> service_;  // null: there is no thread
};

}  // namespace penstock
