#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "report/format.h"
#include "report/pace.h"
#include "report/printable.h"
#include "report/prizes.h"
#include "report/run_report.h"
#include "report/table.h"
#include "report/text_layout.h"

namespace penstock {
namespace {

constexpr std::size_t kErrorsShown = 10;

std::string headline(const RunReport& report, bool colour) {
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

std::string facts(const RunReport& report) {
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
          " · seed " + std::to_string(report.seed);
  if (!report.io.empty()) text += " · " + report.io;
  if (!report.jpeg_backend.empty()) text += " · " + report.jpeg_backend;
  if (report.digest) text += " · digest " + hex16(*report.digest);
  text += "\n";
  if (report.step_ms)
    text += "a step of " + human_seconds(*report.step_ms / 1000) + ": the consumer waited " +
            human_share(report.stall_share()) + " of the time after the first batch\n";
  return text;
}

std::string servers(const RemoteStats& remote) {
  const auto bytes = [](std::uint64_t count) { return human_bytes(static_cast<double>(count)); };
  std::string text = "servers: " + plural(remote.requests, "request", "requests");
  if (remote.again > 0) text += ", " + grouped(remote.again) + " retried";
  if (remote.hedged > 0) text += ", " + grouped(remote.hedged) + " hedged";
  if (remote.throttled > 0) text += ", " + grouped(remote.throttled) + " told to slow down";
  if (remote.requests_per_second > 0)
    text += " (now at most " + human_count(remote.requests_per_second) + " a second)";
  text += " · " + bytes(remote.bytes) + " for " + bytes(remote.bytes_needed) + " needed";
  if (remote.bytes_cached > 0) text += " · " + bytes(remote.bytes_cached) + " from the cache";
  if (remote.latency_ms > 0)
    text += " · an answer after " + human_seconds(1e-3 * remote.latency_ms);
  if (remote.bytes_per_second > 0)
    text += " · " + human_bytes(remote.bytes_per_second) + "/s a connection";
  return text + "\n";
}

std::string slow_shard(const SlowShard& shard) {
  return "a read of " + printable(shard.path) + " takes " + human_seconds(shard.read_s) +
         ", one of other shards " + human_seconds(shard.others_s) + "\n";
}

std::string share_cell(double seconds, const RunReport& report) {
  const double whole = report.wall_s * std::max(1, all_threads(report.stats));
  return whole > 0 ? human_share(seconds / whole) : "";
}

std::string stages(const RunReport& report, bool colour, std::size_t width) {
  Table table({{"stage"},
               {"items", true},
               {"bytes", true},
               {"busy", true},
               {"of threads", true},
               {"", false},
               {"waited", true},
               {"for", false}});
  const double whole = report.wall_s * std::max(1, all_threads(report.stats));
  for (const StageStats& stage : report.stats.stages) {
    const double share = whole > 0 ? stage.busy_s / whole : 0;
    const bool idle = stage.items == 0 && stage.busy_s == 0 && stage.wait_s == 0;
    if (idle) {
      // An order stage works on references, which are not counted.
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
  for (const std::string& line : padding_lines(report)) text += line + "\n";
  return text;
}

std::string towers(const RunReport& report, bool colour, std::size_t width) {
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

/// Returns the share of its elements that the worker had already made for another run.
std::string shared_share(const WorkerStats& worker) {
  if (worker.shared == 0) return "-";
  return human_share(static_cast<double>(worker.shared) / static_cast<double>(worker.elements));
}

std::string workers(const RunReport& report, bool colour, std::size_t width) {
  const Stats& stats = report.stats;
  Table table({{"input worker"},
               {"threads", true},
               {"groups", true},
               {"elements/s", true},
               {"shared", true},
               {"busy", true},
               {"received", true},
               {"round trip", true},
               {"hedged", true},
               {"lost", true},
               {"", false}});
  for (const WorkerStats& worker : stats.workers) {
    const double whole = report.wall_s * std::max(1, worker.threads);
    table.add(
        {printable(worker.address), std::to_string(worker.threads), grouped(worker.groups),
         report.wall_s > 0 ? human_count(static_cast<double>(worker.elements) / report.wall_s) : "",
         shared_share(worker), whole > 0 ? human_share(worker.busy_s / whole) : "",
         human_bytes(static_cast<double>(worker.received_bytes)),
         worker.groups > 0 ? human_seconds(worker.round_trip_s) : "-", grouped(worker.hedged),
         grouped(worker.lost), worker.problem.empty() ? "" : printable(worker.problem)});
  }
  std::string text;
  for (const std::string& line : table.lines(width, colour)) text += line + "\n";
  const std::uint64_t all = stats.groups_of_workers + stats.groups_made_here;
  if (all > 0)
    text += "workers made " +
            human_share(static_cast<double>(stats.groups_of_workers) / static_cast<double>(all)) +
            " of " + plural(all, "group", "groups") + "\n";
  return text;
}

/// Returns text such as "tuned 3 times: threads 2 to 4, slots 8 to 16": each setting that was
/// changed, with its first and last value.
std::string decisions(const std::vector<Decision>& decisions) {
  std::vector<std::pair<std::string, Decision>> knobs;  // in the order of their first change
  for (const Decision& each : decisions) {
    const auto known =
        std::ranges::find(knobs, each.knob, &std::pair<std::string, Decision>::first);
    if (known == knobs.end())
      knobs.emplace_back(each.knob, each);
    else
      known->second.to = each.to;
  }
  std::string text = "tuned " + plural(decisions.size(), "time", "times");
  for (std::size_t i = 0; i < knobs.size(); ++i)
    text += (i == 0 ? ": " : ", ") + knobs[i].first + " " + grouped(knobs[i].second.from) + " to " +
            grouped(knobs[i].second.to);
  return text + "\n";
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
    case Ending::running:
      return "running";
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

std::vector<std::string> padding_lines(const RunReport& report) {
  std::vector<std::string> lines;
  for (const StageStats& stage : report.stats.stages) {
    if (stage.padding_bytes == 0) continue;
    const double share =
        static_cast<double>(stage.padding_bytes) / static_cast<double>(stage.bytes);
    lines.push_back(printable(stage.name) + ": " + human_share(share) +
                    " of its bytes are padding");
  }
  return lines;
}

std::string report_text(const RunReport& report, bool colour, int width) {
  const auto columns = static_cast<std::size_t>(std::max(40, width));
  std::string text;
  if (report.ending == Ending::interrupted)
    text = paint(Colour::yellow, "interrupted; until then:", colour) + "\n";
  text += paint(Colour::bold, wrap(verdict(report).text, columns), colour) + "\n";
  const std::string changes = prizes_text(report);
  if (!changes.empty()) text += wrap(changes, columns) + "\n";
  text += "\n" + headline(report, colour) + facts(report);
  if (report.remote) text += servers(*report.remote);
  if (report.slow_shard) text += slow_shard(*report.slow_shard);
  if (!report.stats.decisions.empty()) text += decisions(report.stats.decisions);
  if (!report.stats.stages.empty()) text += "\n" + stages(report, colour, columns);
  if (!report.stats.workers.empty()) text += "\n" + workers(report, colour, columns);
  if (!report.towers.empty()) text += "\n" + towers(report, colour, columns);
  if (report.lost > 0)
    text += plural(report.lost, "element", "elements") +
            " left at the end of epochs: no full step for all towers" +
            (report.of_program ? " (--epoch-end)\n" : " (FeedOptions::end)\n");
  if (report.decoding.images.warned > 0)
    text += plural(report.decoding.images.warned, "image", "images") +
            " decoded in spite of a warning" +
            (report.of_program ? " (--strict-images refuses them)\n"
                               : " (DecodeOptions::strict_images refuses them)\n");
  if (report.stats.errors.count > 0) text += "\n" + errors(report.stats.errors, colour);
  return text;
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

}  // namespace penstock
