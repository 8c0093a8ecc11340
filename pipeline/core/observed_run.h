// Runs of this process from which reports and metrics are made, if the environment asks for them.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <variant>

#include <penstock/feed.h>
#include <penstock/stats.h>

namespace penstock {

using Observation = std::variant<Stats, FeedStats>;

/// A run's entry in the list of observed runs. It is empty if PENSTOCK_REPORT and PENSTOCK_METRICS
/// ask for nothing; both are read when the first run begins. The layer that reports implements the
/// functions (report/observed_run.cpp). Not synchronised.
class ObservedRun {
 public:
  class Entry;

  ObservedRun() noexcept = default;
  /// Any thread calls `look`, also while the run's own threads are running, but never after
  /// `leave`. A failure to observe is a warning, not an error of the run.
  explicit ObservedRun(std::function<Observation()> look) noexcept;
  ObservedRun(ObservedRun&& other) noexcept = default;
  ObservedRun& operator=(ObservedRun&& other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~ObservedRun() { leave(); }

  /// Observes the run one last time and removes it from the list. Idempotent.
  void leave() noexcept;

 private:
  std::shared_ptr<Entry> entry_;
};

/// A guard: until it is destroyed, runs that this thread creates are not observed, as they are
/// inputs of another run.
class UnobservedRuns {
 public:
  UnobservedRuns() noexcept { ++depth_; }
  ~UnobservedRuns() { --depth_; }
  UnobservedRuns(const UnobservedRuns&) = delete;
  UnobservedRuns& operator=(const UnobservedRuns&) = delete;
  static bool here() noexcept { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace penstock
