// The time for which a run's input worked.
#pragma once

#include <algorithm>

#include <penstock/stats.h>

namespace penstock {

/// The working time of an input, in seconds, as if all threads of a kind had worked at once.
/// Threads that may wait and threads that compute run at the same time, so the slower kind sets the
/// pace.
struct Pace {
  double apart = 0;      ///< of the threads that may wait
  double computing = 0;  ///< of the threads that compute
  double works() const noexcept { return std::max(apart, computing); }
};

/// Counts the threads of the run and of the connected input workers.
inline int all_threads(const Stats& stats) noexcept {
  int threads = stats.threads;
  for (const WorkerStats& worker : stats.workers)
    if (worker.connected) threads += worker.threads;
  return threads;
}

inline Pace pace_of(const Stats& stats) noexcept {
  Pace pace;
  for (const StageStats& stage : stats.stages) {
    pace.apart += stage.apart_s / std::max(1, stats.readers);
    pace.computing += (stage.busy_s - stage.apart_s) / std::max(1, stats.threads);
  }
  return pace;
}

}  // namespace penstock
