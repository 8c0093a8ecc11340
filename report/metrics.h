// The metrics of runs, for Prometheus.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/observed_runs.h"

namespace penstock {

/// Keeps counters from decreasing, which Prometheus would take for a restart. A counter can
/// decrease because a stall is charged to one cause at first, and to another once more is known.
/// Not synchronised.
class CounterFloor {
 public:
  /// Returns the largest value that this series has had so far.
  double of(const std::string& series, double value);
  /// Ends a page: forgets the series that were not asked for since the last call.
  void end_of_page();

 private:
  struct Last {
    double value = 0;
    bool seen = false;
  };
  std::map<std::string, Last> series_;
};

/// Returns the metrics in Prometheus's text format, version 0.0.4; docs/metrics.md lists their
/// names. `floor`: the one for all pages of this process. REQUIRES: no two runs have the same lane.
std::string metrics_text(const std::vector<NamedRun>& runs, CounterFloor& floor);

}  // namespace penstock
