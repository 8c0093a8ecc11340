// The settings that the engine changed during a run.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include <penstock/internal/thread_annotations.h>
#include <penstock/stats.h>

namespace penstock {

/// Records the first thousand decisions of a run, and logs each one. Thread-safe; all but
/// `write_down` may be called with a lock held.
class TuningLog {
 public:
  /// `reason` makes the text. If there is no memory for it, the decision is neither recorded nor
  /// logged.
  template <typename F>
  void note(const char* knob, std::size_t from, std::size_t to, F reason) noexcept
      EXCLUDES(mutex_) {
    try {
      add(knob, from, to, reason());
    } catch (...) {
      return;
    }
  }
  std::vector<Decision> decisions() const EXCLUDES(mutex_);
  /// Logs the decisions since the last call. The log's sink is the user's code.
  void write_down() noexcept EXCLUDES(mutex_);

 private:
  void add(const char* knob, std::size_t from, std::size_t to, std::string reason) EXCLUDES(mutex_);

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable Mutex mutex_;
  std::vector<Decision> decisions_ GUARDED_BY(mutex_);
  std::vector<std::string> lines_ GUARDED_BY(mutex_);  // that are not logged yet
  std::atomic<bool> some_{false};                      // there are some
};

/// Returns the time in milliseconds, such as "3.2 ms".
std::string in_ms(std::chrono::nanoseconds time);

}  // namespace penstock
