#include "report/trace.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "report/printable.h"

namespace penstock {
namespace {

using TraceEvent = nlohmann::ordered_json;

std::string_view category_of(Spans::Kind kind) noexcept {
  switch (kind) {
    case Spans::Kind::group:
      return "group";
    case Spans::Kind::read:
      return "read";
    case Spans::Kind::op:
      return "op";
    case Spans::Kind::copy:
      return "copy";
    case Spans::Kind::step:
      return "step";
  }
  return "";
}

/// Sorts spans by track and start, outer spans first, so that any two are nested or do not overlap.
/// If two overlap partly, the inner one is cut to end with the outer one. The copies and steps of a
/// tower run one after the other, so there the later span is cut to start when the earlier one
/// ends.
void put_in_order(std::vector<Spans::Span>& spans) {
  std::ranges::sort(spans, [](const Spans::Span& a, const Spans::Span& b) {
    if (a.track != b.track) return a.track < b.track;
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::vector<Spans::Span> around;
  for (Spans::Span& span : spans) {
    if (!around.empty() && around.back().track != span.track) around.clear();
    const bool one_by_one = span.kind == Spans::Kind::copy || span.kind == Spans::Kind::step;
    if (one_by_one && !around.empty())
      span.begin_ns = std::max(span.begin_ns, around.back().end_ns);
    while (!around.empty() && around.back().end_ns <= span.begin_ns) around.pop_back();
    if (!around.empty()) span.end_ns = std::min(span.end_ns, around.back().end_ns);
    span.end_ns = std::max(span.begin_ns, span.end_ns);
    around.push_back(span);
  }
}

double microseconds(std::int64_t ns) {
  return 1e-3 * static_cast<double>(ns);
}

TraceEvent named(const char* what, int process, std::uint32_t thread, const std::string& name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

TraceEvent events_of(Spans::Trace trace, const TraceProcess& process) {
  put_in_order(trace.spans);
  const std::int64_t origin = process.origin_ns < 0 ? trace.start_ns : process.origin_ns;
  TraceEvent events = TraceEvent::array();
  events.push_back(named("process_name", process.number, 0, process.name));
  for (std::uint32_t track = 0; track < trace.tracks.size(); ++track)
    events.push_back(
        named("thread_name", process.number, track + 1, printable(trace.tracks[track])));
  for (const Spans::Span& span : trace.spans) {
    const std::int64_t begin = span.begin_ns + process.ahead_ns - origin;
    events.push_back({{"name", printable(trace.names.at(span.name))},
                      {"cat", category_of(span.kind)},
                      {"ph", "X"},
                      {"pid", process.number},
                      {"tid", span.track + 1},
                      {"ts", microseconds(std::max<std::int64_t>(0, begin))},
                      {"dur", microseconds(span.end_ns - span.begin_ns)},
                      {"args", {{"items", span.items}}}});
  }
  return events;
}

}  // namespace

std::string trace_json(Spans::Trace trace, const std::vector<TraceCounter>& counters) {
  const std::uint64_t one_of = trace.one_of;
  TraceEvent events = events_of(std::move(trace), {});
  for (const TraceCounter& counter : counters) {
    TraceEvent values = TraceEvent::object();
    for (const auto& [name, value] : counter.values) values[printable(name)] = value;
    events.push_back({{"name", counter.name},
                      {"ph", "C"},
                      {"pid", 1},
                      {"ts", 1e6 * counter.at_s},
                      {"args", std::move(values)}});
  }
  const TraceEvent all{{"traceEvents", std::move(events)},
                       {"displayTimeUnit", "ms"},
                       {"otherData", {{"spans of one group of", one_of}}}};
  return all.dump() + "\n";
}

std::int64_t trace_start_ns() {
  return Spans::of_process().taken().start_ns;
}

std::string trace_events_so_far(const TraceProcess& process) {
  const std::string array = events_of(Spans::of_process().taken(), process).dump();
  return array.substr(1, array.size() - 2);
}

std::string joined_trace(const std::vector<std::string>& events) {
  std::string all = R"({"displayTimeUnit":"ms","traceEvents":[)";
  const char* separator = "";
  for (const std::string& some : events) {
    if (some.empty()) continue;
    all.append(separator).append(some);
    separator = ",";
  }
  return all + "]}\n";
}

void note_on_track(const std::string& track, std::string_view name, std::uint64_t sample,
                   std::int64_t begin_ns, std::int64_t end_ns) noexcept {
  Spans& spans = Spans::of_process();
  if (spans.on()) spans.note_on(track, Spans::Kind::copy, name, sample, begin_ns, end_ns, 1);
}

void begin_trace(std::size_t most) noexcept {
  Spans::of_process().begin(most);
}

std::string trace_so_far(const std::vector<TraceCounter>& counters) {
  return trace_json(Spans::of_process().taken(), counters);
}

}  // namespace penstock
