// The report on a profiled run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/run_report.h"
#include "tools/penstock/report/meter.h"

namespace penstock::tool {

/// A run's report together with its history.
struct Report : RunReport {
  std::vector<Timeline::Point> timeline;
};

/// A figure of each step, such as the loss.
struct Curve {
  std::string name;
  std::uint64_t first_step = 0;  ///< the step of the first value
  std::vector<float> values;     ///< gaps are no numbers
};

/// The parts of a page that the run's report lacks.
struct PageText {
  std::string command;             ///< the heading: "penstock profile"
  std::string title;               ///< the data, or the model
  std::vector<std::string> lines;  ///< a summary, below the rate
  std::vector<Curve> curves;       ///< drawn above the run's own history
};

/// Returns a page of HTML that needs no other files: the summary, the stages, and the history.
std::string report_html(const Report& report, const PageText& page);

/// Returns a trace in the Trace Event Format (JSON), for chrome://tracing and Perfetto. It has the
/// spans recorded since `begin_trace`, and counters over time: busy threads of each stage, elements
/// per second, and memory.
std::string report_trace(const Report& report);

}  // namespace penstock::tool
