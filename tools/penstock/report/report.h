// The report on a profiled run.
#pragma once

#include <string>
#include <vector>

#include "report/run_report.h"
#include "tools/penstock/report/meter.h"

namespace penstock::tool {

/// A run's report together with its history.
struct Report : RunReport {
  std::vector<Timeline::Point> timeline;
};

/// Returns a page of HTML that needs no other files: the summary, the stages, and the history.
std::string report_html(const Report& report, const std::string& title);

/// Returns a trace in the Trace Event Format (JSON), for chrome://tracing and Perfetto. It has the
/// spans recorded since `begin_trace`, and counters over time: busy threads of each stage, elements
/// per second, and memory.
std::string report_trace(const Report& report);

}  // namespace penstock::tool
