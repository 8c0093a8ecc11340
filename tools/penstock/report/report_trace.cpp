#include <nlohmann/json.hpp>

#include "tools/penstock/report/report.h"

namespace penstock::tool {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string report_trace(const Report& report) {
  Json events = Json::array();
  events.push_back({{"name", "process_name"},
                    {"ph", "M"},
                    {"pid", 1},
                    {"args", {{"name", "penstock profile"}}}});
  const auto counter = [&events](const char* name, double at_s, Json values) {
    events.push_back(
        {{"name", name}, {"ph", "C"}, {"pid", 1}, {"ts", 1e6 * at_s}, {"args", std::move(values)}});
  };
  for (const Timeline::Point& point : report.timeline) {
    Json busy = Json::object();
    for (std::size_t i = 0; i < point.busy_threads.size(); ++i)
      busy[report.stats.stages[i].name] = point.busy_threads[i];
    counter("threads busy", point.at_s, std::move(busy));
    counter("elements/s", point.at_s, {{"elements/s", point.elements_per_s}});
    counter("memory", point.at_s, {{"bytes", point.memory_bytes}});
  }
  const Json trace{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace penstock::tool
