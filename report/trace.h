// A record of the activities of a run's threads and towers, for Perfetto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipeline/core/spans.h"

namespace penstock {

/// A value that is counted over time.
struct TraceCounter {
  std::string name;
  double at_s = 0;  ///< since the trace began
  std::vector<std::pair<std::string, double>> values;
};

/// Records the spans of this process from now on, at most `most` of them.
void begin_trace(std::size_t most = 1 << 16) noexcept;
/// Records a span on a track of its own, in times of the steady clock. `sample`: the number of its
/// step.
void note_on_track(const std::string& track, std::string_view name, std::uint64_t sample,
                   std::int64_t begin_ns, std::int64_t end_ns) noexcept;
/// Returns the spans so far in the Trace Event Format (JSON), for https://ui.perfetto.dev and
/// chrome://tracing. Each thread has a track with the groups it worked on, and within them each
/// read and each op. Each tower has two tracks, with its copies and its steps.
std::string trace_so_far(const std::vector<TraceCounter>& counters = {});

/// One of several processes whose events are put on one clock.
struct TraceProcess {
  int number = 1;
  std::string name = "penstock";
  /// The start of the joint trace; -1: the start of this process's trace.
  std::int64_t origin_ns = -1;
  std::int64_t ahead_ns = 0;  ///< how far that clock is ahead of this process's steady clock
};
/// Returns when this process's trace began, on its steady clock.
std::int64_t trace_start_ns();
/// Returns the events so far, separated by commas.
std::string trace_events_so_far(const TraceProcess& process);
/// Joins the events of several processes to one trace.
std::string joined_trace(const std::vector<std::string>& events);

/// Returns any trace as JSON. On each track, two spans are nested or do not overlap.
std::string trace_json(Spans::Trace trace, const std::vector<TraceCounter>& counters);

}  // namespace penstock
