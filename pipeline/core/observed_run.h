// Runs of this process from which reports and metrics are made, if the environment asks for them.
#pragma once

#include <functional>
#include <memory>
#include <variant>

#include <penstock/feed.h>
#include <penstock/stats.h>

namespace penstock {

using Observation = std::variant<Stats, FeedStats>;

/// A run's entry in the list of observed runs. Its destructor observes the run one last time and
/// removes it from the list.
class ObservedRun {
 public:
  virtual ~ObservedRun() = default;
};

/// Adds a run to the list. Any thread calls `look`, also while the run's own threads are running,
/// but never after the result is destroyed. A failure to observe is a warning, not an error of the
/// run. Returns null if PENSTOCK_REPORT and PENSTOCK_METRICS ask for nothing; both are read when
/// the first run begins.
using ObserveRun = std::unique_ptr<ObservedRun>(std::function<Observation()> look) noexcept;
ObserveRun observe_run;  // report/observed_run.cpp

}  // namespace penstock
