#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>

#include "tools/penstock/report/digest.h"
#include "tools/penstock/report/report.h"
#include "tools/penstock/support/numbers.h"
#include "tools/penstock/support/text.h"

namespace penstock::tool {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 160;

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
td { text-align: right; border-top: 1px solid var(--line); padding: .25rem 0 .25rem .8rem; }
td:first-child, th:first-child { text-align: left; padding-left: 0; overflow-wrap: anywhere; }
.bar { width: 9rem; } .bar div { height: .7rem; background: var(--bar); border-radius: 2px; }
svg { width: 100%; height: auto; } svg text { fill: var(--pale); font-size: 11px; }
.axis { stroke: var(--line); } .graph { fill: none; stroke: var(--bar); stroke-width: 1.5; }
li { overflow-wrap: anywhere; }
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

/// A line over time, from 0 to its largest value.
std::string graph(const std::vector<Timeline::Point>& points,
                  const std::function<double(const Timeline::Point&)>& value,
                  const std::function<std::string(double)>& label) {
  double most = 0;
  for (const Timeline::Point& point : points) most = std::max(most, value(point));
  const double end = points.back().at_s;
  if (most <= 0 || end <= 0) return "";
  std::string line;
  for (const Timeline::Point& point : points)
    line += fixed(point.at_s / end * kWidth) + "," +
            fixed(kHeight * (1 - value(point) / most) + 14) + " ";
  return "<svg viewBox=\"0 0 " + fixed(kWidth) + " " + fixed(kHeight + 34) +
         "\"><line class=\"axis\" x1=\"0\" y1=\"" + fixed(kHeight + 14) + "\" x2=\"" +
         fixed(kWidth) + "\" y2=\"" + fixed(kHeight + 14) +
         "\"/><polyline class=\"graph\" points=\"" + line + "\"/><text x=\"0\" y=\"10\">" +
         escape(label(most)) + "</text><text x=\"0\" y=\"" + fixed(kHeight + 28) +
         "\">0 s</text><text text-anchor=\"end\" x=\"" + fixed(kWidth) + "\" y=\"" +
         fixed(kHeight + 28) + "\">" + escape(human_seconds(end)) + "</text></svg>\n";
}

std::string tower_name(const Report& report, std::size_t tower) {
  return "Tower " + std::to_string(tower) + " " + report.towers[tower].device;
}

/// The largest first: "copy 1.20 s, slots 10.0 ms".
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

std::string graphs(const Report& report) {
  const auto& points = report.timeline;
  if (points.size() < 2) return "";
  std::string out = "<h2>Elements a second</h2>\n";
  out += graph(
      points, [](const auto& p) { return p.elements_per_s; },
      [](double most) { return human_count(most) + "/s"; });
  out += "<h2>Memory in use</h2>\n";
  out += graph(
      points, [](const auto& p) { return static_cast<double>(p.memory_bytes); },
      [](double most) { return human_bytes(most); });
  for (std::size_t i = 0; i < report.towers.size(); ++i) {
    const std::string one = graph(
        points, [i](const auto& p) { return i < p.stall_shares.size() ? p.stall_shares[i] : 0; },
        [](double most) { return human_share(most) + " of the time"; });
    if (!one.empty()) out += "<h2>" + escape(tower_name(report, i)) + " stalled</h2>\n" + one;
  }
  for (std::size_t i = 0; i < report.stats.stages.size(); ++i) {
    const std::string one = graph(
        points, [i](const auto& p) { return i < p.busy_threads.size() ? p.busy_threads[i] : 0; },
        [](double most) { return fixed(most) + " threads"; });
    if (!one.empty())
      out += "<h2>Threads busy in " + escape(report.stats.stages[i].name) + "</h2>\n" + one;
  }
  return out;
}

std::string stage_row(const StageStats& stage, const Report& report) {
  const double whole = report.wall_s * std::max(1, report.stats.threads);
  const double share = whole > 0 ? std::min(1.0, stage.busy_s / whole) : 0;
  return "<tr><td>" + escape(stage.name) + "</td><td>" + grouped(stage.items) + "</td><td>" +
         human_bytes(static_cast<double>(stage.bytes)) + "</td><td>" + human_seconds(stage.busy_s) +
         "</td><td class=\"bar\"><div style=\"width: " + fixed(100 * share) +
         "%\"></div></td><td>" + human_share(share) + "</td><td>" + human_seconds(stage.wait_s) +
         "</td><td>" + escape(stage.waits_on) + "</td></tr>\n";
}

std::string errors(const ErrorStats& errors) {
  if (errors.count == 0) return "";
  std::string out = "<h2>" + grouped(errors.count) + " bad elements</h2>\n<ul>\n";
  for (const Error& error : errors.first) out += "<li>" + escape(error.what()) + "</li>\n";
  return out + "</ul>\n";
}

}  // namespace

std::string report_html(const Report& report, const std::string& title) {
  const MemoryStats& memory = report.stats.memory;
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>" + escape(title) +
      "</title>\n<style>" + std::string(kStyle) +
      "</style></head><body>\n<h1>penstock profile</h1>\n<div class=\"pale\">" + escape(title) +
      "</div>\n<div class=\"rate\">" +
      grouped(static_cast<std::uint64_t>(report.elements_per_second() + 0.5)) +
      " elements/s</div>\n<div class=\"pale\">" + grouped(report.elements) + " elements · " +
      grouped(report.batches) + " batches · " + human_seconds(report.wall_s) +
      " · first batch after " + human_seconds(report.first_batch_s) + " · memory " +
      human_bytes(static_cast<double>(memory.peak_bytes)) + " of " +
      human_bytes(static_cast<double>(memory.budget_bytes)) + " · " +
      std::to_string(report.stats.threads) + " threads · seed " + std::to_string(report.seed);
  if (report.digest) out += " · digest " + hex16(*report.digest);
  out += "</div>\n<div class=\"verdict\">" + escape(verdict(report).text) +
         "</div>\n<h2>Stages</h2>\n<table><tr><th></th><th>items</th><th>bytes</th><th>busy</th>"
         "<th></th><th>of threads</th><th>waited</th><th>for</th></tr>\n";
  for (const StageStats& stage : report.stats.stages) out += stage_row(stage, report);
  return out + "</table>\n" + towers(report) + errors(report.stats.errors) + graphs(report) +
         "</body></html>\n";
}

}  // namespace penstock::tool
