#include <algorithm>
#include <string>
#include <vector>

#include "tools/penstock/report/digest.h"
#include "tools/penstock/report/report.h"
#include "tools/penstock/support/numbers.h"
#include "tools/penstock/support/table.h"
#include "tools/penstock/support/terminal.h"
#include "tools/penstock/support/text.h"

namespace penstock::tool {
namespace {

constexpr std::size_t kErrorsShown = 10;

std::string plural(std::uint64_t count, const std::string& one, const std::string& many) {
  return grouped(count) + " " + (count == 1 ? one : many);
}

std::string headline(const Report& report, bool colour) {
  const double rate = report.elements_per_second();
  std::string text = plural(report.elements, "element", "elements") + " in " +
                     plural(report.batches, "batch", "batches") + ", " +
                     plural(report.epochs, "epoch", "epochs") + ", " +
                     human_seconds(report.wall_s) + ": ";
  text +=
      paint(Colour::bold, grouped(static_cast<std::uint64_t>(rate + 0.5)) + " elements/s", colour);
  if (rate > 0) text += " (" + human_seconds(1 / rate) + " each)";
  return text + "\n";
}

std::string facts(const Report& report) {
  const MemoryStats& memory = report.stats.memory;
  std::string text;
  if (report.batches > 0)
    text += "first batch after " + human_seconds(report.first_batch_s) + " · ";
  if (report.elements > 0)
    text +=
        human_seconds(report.cpu_s / static_cast<double>(report.elements)) + " CPU an element · ";
  text += "memory " + human_bytes(static_cast<double>(memory.peak_bytes)) + " of " +
          human_bytes(static_cast<double>(memory.budget_bytes)) + " · RSS " +
          human_bytes(static_cast<double>(report.rss_peak_bytes)) + "\n";
  text += plural(static_cast<std::uint64_t>(report.stats.threads), "thread", "threads") +
          " · seed " + std::to_string(report.seed) + " · " + report.io;
  if (!report.jpeg_backend.empty()) text += " · " + report.jpeg_backend;
  if (report.digest) text += " · digest " + hex16(*report.digest);
  text += "\n";
  if (report.step_ms)
    text += "a step of " + human_seconds(*report.step_ms / 1000) + ": the consumer waited " +
            human_share(report.stall_share()) + " of the time after the first batch\n";
  return text;
}

std::string share_cell(double seconds, const Report& report) {
  const double whole = report.wall_s * std::max(1, report.stats.threads);
  return whole > 0 ? human_share(seconds / whole) : "";
}

std::string stages(const Report& report, bool colour, std::size_t width) {
  Table table({{"stage"},
               {"items", true},
               {"bytes", true},
               {"busy", true},
               {"of threads", true},
               {"", false},
               {"waited", true},
               {"for", false}});
  const double whole = report.wall_s * std::max(1, report.stats.threads);
  for (const StageStats& stage : report.stats.stages) {
    const double share = whole > 0 ? stage.busy_s / whole : 0;
    const bool idle = stage.items == 0 && stage.busy_s == 0 && stage.wait_s == 0;
    if (idle) {
      // An order stage works on references, which nobody counts.
      table.add({printable(stage.name), "-", "-", "-", "-", "", "-", ""});
      continue;
    }
    table.add({printable(stage.name), grouped(stage.items),
               human_bytes(static_cast<double>(stage.bytes)), human_seconds(stage.busy_s),
               share_cell(stage.busy_s, report), paint(Colour::cyan, bar(share, 10), colour),
               human_seconds(stage.wait_s), stage.waits_on});
  }
  std::string text;
  for (const std::string& line : table.lines(width, colour)) text += line + "\n";
  return text;
}

std::string towers(const Report& report, bool colour, std::size_t width) {
  Table table({{"tower"},
               {"device"},
               {"steps", true},
               {"elements", true},
               {"in steps", true},
               {"stalled", true},
               {"share", true},
               {"copy hidden", true},
               {"mostly for", false}});
  for (std::size_t t = 0; t < report.towers.size(); ++t) {
    const TowerStats& tower = report.towers[t];
    std::string cause;
    double longest = 0;
    for (const auto& [name, seconds] : tower.causes) {
      if (seconds <= longest) continue;
      longest = seconds;
      cause = name;
    }
    table.add({std::to_string(t), tower.device, grouped(tower.steps), grouped(tower.elements),
               human_seconds(tower.step_s), human_seconds(tower.stall_s),
               human_share(tower.stall_share()), human_share(tower.copy_hidden_share),
               printable(cause)});
  }
  std::string text;
  for (const std::string& line : table.lines(width, colour)) text += line + "\n";
  return text;
}

std::string decisions(const std::vector<Decision>& decisions) {
  constexpr std::size_t kShown = 12;
  std::string text = "tuned\n";
  const std::size_t shown = std::min(kShown, decisions.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Decision& each = decisions[i];
    text += "  after " + human_seconds(each.at_s) + " " + each.knob + " " + grouped(each.from) +
            " to " + grouped(each.to) + ": " + printable(each.reason) + "\n";
  }
  if (decisions.size() > shown) text += "  and " + grouped(decisions.size() - shown) + " more\n";
  return text;
}

std::string errors(const ErrorStats& errors, bool colour) {
  std::string text =
      paint(Colour::red, plural(errors.count, "bad element", "bad elements"), colour) + "\n";
  const std::size_t shown = std::min(kErrorsShown, errors.first.size());
  for (std::size_t i = 0; i < shown; ++i) text += "  " + printable(errors.first[i].what()) + "\n";
  if (errors.count > shown) text += "  and " + grouped(errors.count - shown) + " more\n";
  return text;
}

}  // namespace

std::string_view name_of(Ending ending) noexcept {
  switch (ending) {
    case Ending::finished:
      return "finished";
    case Ending::batch_limit:
      return "batch limit";
    case Ending::interrupted:
      return "interrupted";
    case Ending::failed:
      return "failed";
    case Ending::no_progress:
      return "no progress";
    case Ending::device_lost:
      return "device lost";
  }
  return "";
}

std::string report_text(const Report& report, bool colour, int width) {
  const auto columns = static_cast<std::size_t>(std::max(40, width));
  std::string text;
  if (report.ending == Ending::interrupted)
    text = paint(Colour::yellow, "interrupted; until then:", colour) + "\n";
  text += headline(report, colour) + facts(report);
  if (!report.stats.stages.empty()) text += "\n" + stages(report, colour, columns);
  if (!report.towers.empty()) text += "\n" + towers(report, colour, columns);
  if (report.lost > 0)
    text += plural(report.lost, "element", "elements") +
            " left at the end of epochs: no full step for all towers (--epoch-end)\n";
  if (!report.stats.decisions.empty()) text += "\n" + decisions(report.stats.decisions);
  if (report.stats.errors.count > 0) text += "\n" + errors(report.stats.errors, colour);
  return text + "\n" + paint(Colour::bold, wrap(verdict(report).text, columns), colour) + "\n";
}

std::string still_picture(const Stats& stats, double still_s) {
  std::string text = "penstock: nothing was delivered for " + human_seconds(still_s) + "; " +
                     plural(stats.elements, "element", "elements") + " so far";
  for (const StageStats& stage : stats.stages) {
    text += "\n  " + printable(stage.name) + ": " + plural(stage.items, "item", "items") +
            " out, busy " + human_seconds(stage.busy_s) + ", waited " + human_seconds(stage.wait_s);
    if (!stage.waits_on.empty()) text += ", mostly for " + stage.waits_on;
  }
  return text;
}

}  // namespace penstock::tool
