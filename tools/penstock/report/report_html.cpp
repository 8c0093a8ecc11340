#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "report/pace.h"
#include "report/prizes.h"
#include "tools/penstock/report/digest.h"
#include "tools/penstock/report/report.h"

namespace penstock::tool {
namespace {

// The size of a graph, and the margins on the left and below for the numbers on its axes.
constexpr double kWidth = 860;
constexpr double kHeight = 190;
constexpr double kLeft = 78;
constexpr double kBelow = 24;
constexpr double kAbove = 8;
constexpr double kRight = 14;

constexpr std::string_view kStyle = R"(
:root { --ink: #1b2733; --pale: #6b7a89; --line: #dde3e9; --paper: #ffffff; --bar: #2f7fb8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e9ef; --pale: #8b9aa9; --line: #2c3742; --paper: #12181e; --bar: #4aa3df; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 900px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; margin-bottom: 0; }
h2 { font-size: 1rem; margin: 2rem 0 .3rem; }
.rate { font-size: 2.2rem; font-weight: 600; margin: .6rem 0 0; }
.pale { color: var(--pale); }
.verdict { border-left: 4px solid var(--bar); padding: .4rem .9rem; margin: 1.2rem 0; }
table { border-collapse: collapse; width: 100%; }
th { text-align: right; font-weight: normal; color: var(--pale); }
td { text-align: right; border-top: 1px solid var(--line); padding: .25rem 0 .25rem .8rem;
  white-space: nowrap; }
td:first-child, th:first-child { text-align: left; padding-left: 0; overflow-wrap: anywhere;
  white-space: normal; }
.bar { width: 9rem; } .bar div { height: .7rem; background: var(--bar); border-radius: 2px; }
svg { width: 100%; height: auto; } svg text { fill: var(--pale); font-size: 11px; }
.axis { stroke: var(--line); } .graph { fill: none; stroke: var(--bar); stroke-width: 1.5; }
li { overflow-wrap: anywhere; } summary { cursor: pointer; margin-top: 1.5rem; color: var(--pale); }
.left td, .left th { text-align: left; } .left td:last-child { white-space: normal; }
)";

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string fixed(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

/// Returns a number for an axis whose numbers may be small.
std::string plain(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return value < 1000 ? text.data() : human_count(value);
}

/// Returns round numbers from 0 to at least `most`, in four to eight steps: 0, 0.5, 1, 1.5…
std::vector<double> round_ticks(double most) {
  constexpr double kSteps = 4;
  const double power = std::pow(10, std::floor(std::log10(most / kSteps)));
  const double digit = most / kSteps / power;
  const double step = power * (digit < 2 ? 1 : digit < 5 ? 2 : 5);
  std::vector<double> ticks{0};
  while (ticks.back() < most * (1 - 1e-9))
    ticks.push_back(step * static_cast<double>(ticks.size()));
  return ticks;
}

/// Returns the same for bytes, in powers of two.
std::vector<double> byte_ticks(double most) {
  const double unit = std::exp2(10 * std::floor(std::log2(most) / 10));
  std::vector<double> ticks = round_ticks(most / unit);
  for (double& tick : ticks) tick *= unit;
  return ticks;
}

std::string svg_text(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\" text-anchor=\"" + anchor + "\">" +
         escape(text) + "</text>";
}

std::string svg_line(double x1, double y1, double x2, double y2) {
  return "<line class=\"axis\" x1=\"" + fixed(x1) + "\" y1=\"" + fixed(y1) + "\" x2=\"" +
         fixed(x2) + "\" y2=\"" + fixed(y2) + "\"/>";
}

struct Place {
  double x = 0;
  double y = 0;
};
using Label = std::function<std::string(double)>;
using Ticks = std::function<std::vector<double>(double)>;

std::string time_label(double seconds) {
  return seconds > 0 ? human_seconds(seconds) : "0 s";
}

/// Returns a line from x = 0 on, with numbers and units on both axes.
std::string graph(const std::vector<Place>& places, const Label& x_label, const Label& label,
                  const Ticks& ticks_of) {
  double most = 0;
  double end = 0;
  for (const Place& place : places) {
    most = std::max(most, place.y);
    end = std::max(end, place.x);
  }
  if (most <= 0 || end <= 0) return "";
  const std::vector<double> ticks = ticks_of(most);
  const auto x = [end](double at) { return kLeft + at / end * (kWidth - kLeft - kRight); };
  const auto y = [&ticks](double of) {
    return kAbove + (kHeight - kAbove - kBelow) * (1 - of / ticks.back());
  };
  std::string out = "<svg viewBox=\"0 0 " + fixed(kWidth) + " " + fixed(kHeight) + "\">";
  for (const double tick : ticks)
    out += svg_line(kLeft, y(tick), kWidth - kRight, y(tick)) +
           svg_text(kLeft - 6, y(tick) + 4, "end", label(tick));
  for (const double tick : round_ticks(end)) {
    if (tick > end) break;
    out += svg_line(x(tick), y(0), x(tick), y(0) + 4) +
           svg_text(x(tick), kHeight - 6, "middle", x_label(tick));
  }
  out += "<polyline class=\"graph\" points=\"";
  for (const Place& place : places) out += fixed(x(place.x)) + "," + fixed(y(place.y)) + " ";
  return out + "\"/></svg>\n";
}

/// Returns a line over time.
std::string graph(const std::vector<Timeline::Point>& points,
                  const std::function<double(const Timeline::Point&)>& value, const Label& label,
                  const Ticks& ticks_of = round_ticks) {
  std::vector<Place> places;
  for (const Timeline::Point& point : points) places.push_back({point.at_s, value(point)});
  return graph(places, time_label, label, ticks_of);
}

/// Returns a line over steps. Where there are more than pixels, a place is the mean of several.
std::string graph(const Curve& curve) {
  constexpr std::size_t kMostPlaces = 400;
  const std::size_t each = 1 + curve.values.size() / kMostPlaces;
  std::vector<Place> places;
  for (std::size_t i = 0; i < curve.values.size(); i += each) {
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t j = i; j < std::min(i + each, curve.values.size()); ++j) {
      if (!std::isfinite(curve.values[j])) continue;
      sum += curve.values[j];
      ++count;
    }
    if (count == 0) continue;
    places.push_back({static_cast<double>(curve.first_step + i), sum / static_cast<double>(count)});
  }
  const auto step = [](double number) { return grouped(static_cast<std::uint64_t>(number)); };
  return graph(places, step, plain, round_ticks);
}

std::string tower_name(const Report& report, std::size_t tower) {
  return "Tower " + std::to_string(tower) + " " + report.towers[tower].device;
}

/// Returns text such as "copy 1.20 s, slots 10.0 ms", the largest first.
std::string seconds_list(std::vector<std::pair<std::string, double>> seconds) {
  std::ranges::sort(seconds, std::greater(), &std::pair<std::string, double>::second);
  std::string text;
  for (const auto& [name, time] : seconds)
    text += (text.empty() ? "" : ", ") + name + " " + human_seconds(time);
  return text;
}

std::string towers(const Report& report) {
  if (report.towers.empty()) return "";
  std::string out =
      "<h2>Towers</h2>\n<table><tr><th></th><th>steps</th><th>in steps</th><th></th>"
      "<th>stalled</th><th>share</th><th>copy hidden</th></tr>\n";
  std::string why = "<ul>\n";
  for (std::size_t t = 0; t < report.towers.size(); ++t) {
    const TowerStats& tower = report.towers[t];
    const double share = tower.wall_s > 0 ? std::min(1.0, tower.step_s / tower.wall_s) : 0;
    out += "<tr><td>" + escape(tower_name(report, t)) + "</td><td>" + grouped(tower.steps) +
           "</td><td>" + human_seconds(tower.step_s) +
           "</td><td class=\"bar\"><div style=\"width: " + fixed(100 * share) +
           "%\"></div></td><td>" + human_seconds(tower.stall_s) + "</td><td>" +
           human_share(tower.stall_share()) + "</td><td>" + human_share(tower.copy_hidden_share) +
           "</td></tr>\n";
    if (tower.causes.empty()) continue;
    why += "<li>" + escape(tower_name(report, t)) + " waited for " +
           escape(seconds_list(tower.causes));
    if (!tower.gains.empty())
      why += "; it would have been done sooner without " + escape(seconds_list(tower.gains));
    why += "</li>\n";
  }
  return out + "</table>\n" + why + "</ul>\n";
}

std::string workers(const Report& report) {
  const Stats& stats = report.stats;
  if (stats.workers.empty()) return "";
  std::string out =
      "<h2>Input workers</h2>\n<table><tr><th></th><th>threads</th><th>groups</th><th>elements/s"
      "</th><th>shared</th><th></th><th>busy</th><th>received</th><th>round trip</th><th>hedged"
      "</th><th>lost</th>"
      "</tr>\n";
  std::string why;
  for (const WorkerStats& worker : stats.workers) {
    const double whole = report.wall_s * std::max(1, worker.threads);
    const double share = whole > 0 ? std::min(1.0, worker.busy_s / whole) : 0;
    const double rate =
        report.wall_s > 0 ? static_cast<double>(worker.elements) / report.wall_s : 0;
    out += "<tr><td>" + escape(worker.address) + "</td><td>" + std::to_string(worker.threads) +
           "</td><td>" + grouped(worker.groups) + "</td><td>" + human_count(rate) + "</td><td>" +
           grouped(worker.shared) +
           "</td><td class=\"bar\"><div style=\"width: " + fixed(100 * share) +
           "%\"></div></td><td>" + human_share(share) + "</td><td>" +
           human_bytes(static_cast<double>(worker.received_bytes)) + "</td><td>" +
           (worker.groups > 0 ? human_seconds(worker.round_trip_s) : "-") + "</td><td>" +
           grouped(worker.hedged) + "</td><td>" + grouped(worker.lost) + "</td></tr>\n";
    if (!worker.problem.empty())
      why += "<li>" + escape(worker.address) + ": " + escape(worker.problem) + "</li>\n";
  }
  out += "</table>\n";
  if (!why.empty()) out += "<ul>\n" + why + "</ul>\n";
  const std::uint64_t all = stats.groups_of_workers + stats.groups_made_here;
  if (all > 0)
    out += "<div class=\"pale\">They made " +
           human_share(static_cast<double>(stats.groups_of_workers) / static_cast<double>(all)) +
           " of " + plural(all, "group", "groups") + ".</div>\n";
  return out;
}

std::string graphs(const Report& report) {
  const auto& points = report.timeline;
  if (points.size() < 2) return "";
  std::string out = "<h2>Elements a second</h2>\n";
  out += graph(
      points, [](const auto& p) { return p.elements_per_s; },
      [](double most) { return plain(most) + "/s"; });
  out += "<h2>Memory in use</h2>\n";
  out += graph(
      points, [](const auto& p) { return static_cast<double>(p.memory_bytes); },
      [](double most) { return human_bytes(most); }, byte_ticks);
  for (std::size_t i = 0; i < report.towers.size(); ++i) {
    const std::string one = graph(
        points, [i](const auto& p) { return i < p.stall_shares.size() ? p.stall_shares[i] : 0; },
        [](double most) { return human_share(most); });
    if (!one.empty())
      out += "<h2>" + escape(tower_name(report, i)) + " stalled, share of the time</h2>\n" + one;
  }
  for (std::size_t i = 0; i < report.stats.stages.size(); ++i) {
    const std::string one = graph(
        points,
        [i,
         most = i == 0 ? HUGE_VAL : static_cast<double>(all_threads(report.stats))](const auto& p) {
          // A group is counted when it is done, so two may be counted at once.
          return i < p.busy_threads.size() ? std::min(p.busy_threads[i], most) : 0;
        },
        plain);
    if (!one.empty())
      out += "<h2>Threads busy in " + escape(report.stats.stages[i].name) + "</h2>\n" + one;
  }
  return out;
}

std::string stage_row(const StageStats& stage, const Report& report) {
  // An order stage works on references, which are not counted.
  if (stage.items == 0 && stage.busy_s == 0 && stage.wait_s == 0)
    return "<tr><td>" + escape(stage.name) +
           "</td><td>-</td><td>-</td><td>-</td><td></td><td>-</td><td>-</td><td></td></tr>\n";
  const double whole = report.wall_s * std::max(1, all_threads(report.stats));
  const double share = whole > 0 ? std::min(1.0, stage.busy_s / whole) : 0;
  return "<tr><td>" + escape(stage.name) + "</td><td>" + grouped(stage.items) + "</td><td>" +
         human_bytes(static_cast<double>(stage.bytes)) + "</td><td>" + human_seconds(stage.busy_s) +
         "</td><td class=\"bar\"><div style=\"width: " + fixed(100 * share) +
         "%\"></div></td><td>" + human_share(share) + "</td><td>" + human_seconds(stage.wait_s) +
         "</td><td>" + escape(stage.waits_on) + "</td></tr>\n";
}

std::string errors(const ErrorStats& errors) {
  if (errors.count == 0) return "";
  std::string out = "<h2>" + plural(errors.count, "bad element", "bad elements") + "</h2>\n<ul>\n";
  for (const Error& error : errors.first) out += "<li>" + escape(error.what()) + "</li>\n";
  return out + "</ul>\n";
}

/// Returns the changes that the engine made, in a folded section.
std::string decisions(const std::vector<Decision>& decisions) {
  if (decisions.empty()) return "";
  std::string out = "<details><summary>Tuned " + plural(decisions.size(), "time", "times") +
                    "</summary>\n<table class=\"left\"><tr><th>after</th><th>what</th><th>from</th>"
                    "<th>to</th><th>why</th></tr>\n";
  for (const Decision& each : decisions)
    out += "<tr><td>" + human_seconds(each.at_s) + "</td><td>" + escape(each.knob) + "</td><td>" +
           grouped(each.from) + "</td><td>" + grouped(each.to) + "</td><td>" + escape(each.reason) +
           "</td></tr>\n";
  return out + "</table></details>\n";
}

}  // namespace

std::string report_html(const Report& report, const PageText& page) {
  const std::string title = escape(page.title);
  const MemoryStats& memory = report.stats.memory;
  const std::string changes = prizes_text(report);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>" + title +
      "</title>\n<style>" + std::string(kStyle) + "</style></head><body>\n<h1>" +
      escape(page.command) + "</h1>\n<div class=\"pale\">" + title +
      "</div>\n<div class=\"verdict\">" + escape(verdict(report).text) +
      (changes.empty() ? "" : "<div class=\"pale\">" + escape(changes) + "</div>") +
      "</div>\n<div class=\"rate\">" +
      grouped(static_cast<std::uint64_t>(report.elements_per_second() + 0.5)) +
      " elements/s</div>\n<div class=\"pale\">" + plural(report.elements, "element", "elements") +
      " · " + plural(report.batches, "batch", "batches") + " · " + human_seconds(report.wall_s) +
      " · first batch after " + human_seconds(report.first_batch_s) + " · memory " +
      human_bytes(static_cast<double>(memory.peak_bytes)) + " of " +
      human_bytes(static_cast<double>(memory.budget_bytes)) + " · " +
      std::to_string(report.stats.threads) + " threads · seed " + std::to_string(report.seed);
  if (report.digest) out += " · digest " + hex16(*report.digest);
  out += "</div>\n";
  if (!page.lines.empty()) out += "<ul>\n";
  for (const std::string& line : page.lines) out += "<li>" + escape(line) + "</li>\n";
  if (!page.lines.empty()) out += "</ul>\n";
  for (const Curve& curve : page.curves) {
    const std::string one = graph(curve);
    if (!one.empty()) out += "<h2>" + escape(curve.name) + "</h2>\n" + one;
  }
  out += towers(report) +
         "<h2>Stages</h2>\n<table><tr><th></th><th>items</th><th>bytes</th><th>busy</th>"
         "<th></th><th>of threads</th><th>waited</th><th>for</th></tr>\n";
  for (const StageStats& stage : report.stats.stages) out += stage_row(stage, report);
  out += "</table>\n";
  for (const std::string& line : padding_lines(report))
    out += "<div class=\"pale\">" + escape(line) + "</div>\n";
  return out + workers(report) + errors(report.stats.errors) + decisions(report.stats.decisions) +
         graphs(report) + "</body></html>\n";
}

}  // namespace penstock::tool
