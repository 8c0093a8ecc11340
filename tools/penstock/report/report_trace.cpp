#include <utility>

#include "report/trace.h"
#include "tools/penstock/report/report.h"

namespace penstock::tool {

std::string report_trace(const Report& report) {
  std::vector<TraceCounter> counters;
  for (const Timeline::Point& point : report.timeline) {
    TraceCounter busy{"threads busy", point.at_s, {}};
    for (std::size_t i = 0; i < point.busy_threads.size(); ++i)
      busy.values.emplace_back(report.stats.stages[i].name, point.busy_threads[i]);
    counters.push_back(std::move(busy));
    counters.push_back({"elements/s", point.at_s, {{"elements/s", point.elements_per_s}}});
    counters.push_back(
        {"memory", point.at_s, {{"bytes", static_cast<double>(point.memory_bytes)}}});
  }
  return trace_so_far(counters);
}

}  // namespace penstock::tool
