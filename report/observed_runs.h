// The list of all runs to report on.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/core/observed_run.h"
#include "report/run_report.h"

namespace penstock {

/// A run, and its state at the time of a look.
struct NamedRun {
  std::uint64_t number = 0;  ///< among the runs of the process, from 0
  std::uint64_t lane = 0;    ///< the least number that no other run used when this one began
  bool feed = false;
  RunReport report{};
};

/// A run in the list.
class RunEntry {
 public:
  RunEntry(std::uint64_t number, std::uint64_t lane, std::function<Observation()> look)
      : number_(number), lane_(lane), look_(std::move(look)) {}

  std::uint64_t lane() const noexcept { return lane_; }
  /// Returns the state of the run now; empty once it has ended. Throws the errors of the function
  /// that reports it.
  std::vector<NamedRun> look() EXCLUDES(mutex_);
  /// Takes the last look. The run is not accessed afterwards.
  NamedRun end() EXCLUDES(mutex_);

 private:
  NamedRun named(Observation seen, Ending ending) const;

  const std::uint64_t number_;
  const std::uint64_t lane_;
  SlowMutex mutex_;  // held while the run is looked at, so that it does not end meanwhile
  std::function<Observation()> look_ GUARDED_BY(mutex_);  // empty: the run has ended
};

/// The running and the latest ended runs of the process. Thread-safe.
class ObservedRuns {
 public:
  using EntryPtr = std::shared_ptr<RunEntry>;
  static constexpr std::size_t kEndedKept = 16;

  EntryPtr add(std::function<Observation()> look) EXCLUDES(mutex_);
  void remove(const EntryPtr& entry) EXCLUDES(mutex_);
  /// Returns the runs that have not ended.
  std::vector<NamedRun> live() const EXCLUDES(mutex_);
  /// Returns the latest ended runs, followed by those that have not ended.
  std::vector<NamedRun> all() const EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::uint64_t begun_ GUARDED_BY(mutex_) = 0;
  std::vector<EntryPtr> live_ GUARDED_BY(mutex_);
  std::deque<NamedRun> ended_ GUARDED_BY(mutex_);
};

/// Return the reports of all runs as one text, or as one JSON object.
std::string runs_text(const std::vector<NamedRun>& runs);
std::string runs_json(const std::vector<NamedRun>& runs);

}  // namespace penstock
