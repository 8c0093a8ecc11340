// What the engine changed about a run while it went.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <penstock/stats.h>

#include "pipeline/core/thread_annotations.h"

namespace penstock {

/// Remembers the decisions of a run, the first thousand, and says each through the log.
/// Thread-safe.
class TuningLog {
 public:
  /// `reason` makes the text. Without memory for it nothing is said.
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

 private:
  void add(const char* knob, std::size_t from, std::size_t to, std::string reason) EXCLUDES(mutex_);

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable Mutex mutex_;
  std::vector<Decision> decisions_ GUARDED_BY(mutex_);
};

/// "3.2 ms".
std::string in_ms(std::chrono::nanoseconds time);

}  // namespace penstock
