#include "tools/penstock/report/screen.h"

#include <algorithm>

#include "pipelines/numbers.h"
#include "pipelines/text.h"
#include "tools/penstock/support/terminal.h"

namespace penstock::tool {
namespace {

constexpr std::size_t kLeastName = 10;

std::string both_ends(const std::string& left, const std::string& right, std::size_t width) {
  const std::size_t taken = display_width(right) + 1;
  if (taken >= width) return fit(left, width);
  return pad(fit(left, width - taken), width - taken) + " " + right;
}

Colour heat(double share) {
  return share >= 0.85 ? Colour::red : share >= 0.5 ? Colour::yellow : Colour::green;
}

std::string counts(const Stats& stats, const Rates& rates) {
  return grouped(stats.elements) + " elements · " + human_count(rates.elements_per_s) +
         "/s · memory " + human_bytes(static_cast<double>(stats.memory.used_bytes)) + " of " +
         human_bytes(static_cast<double>(stats.memory.budget_bytes));
}

std::string faults(const Stats& stats, bool colour) {
  if (stats.errors.count == 0) return "";
  return paint(Colour::red, " · " + grouped(stats.errors.count) + " bad", colour);
}

std::string progress(const Scene& scene, const Moment& moment, std::size_t width) {
  const double share = static_cast<double>(moment.delivered) / scene.expected;
  const std::string label = " " + pad(human_share(std::min(1.0, share)), 4, true);
  if (width < 20) return fit(label, width);
  return paint(Colour::blue, bar(share, width - 5), scene.colour) + label;
}

std::string stage_line(const StageRate& stage, int threads, std::size_t name_width,
                       std::size_t width, bool colour) {
  const double share = stage.busy_threads / std::max(1, threads);
  const std::string right = pad(human_share(share), 5, true) +
                            pad(human_count(stage.items_per_s) + "/s", 9, true) + "  " +
                            pad(stage.waits_on.empty() ? "" : "waits: " + stage.waits_on, 15);
  const std::string name = pad(fit(printable(stage.name), name_width), name_width);
  const std::size_t taken = name_width + 1 + display_width(right);
  if (taken + 4 > width) return fit(name + right, width);
  return name + " " + paint(heat(share), bar(share, width - taken), colour) + right;
}

/// The bar shows the share of the time in which the tower works.
std::string tower_line(const TowerRate& tower, const std::string& label, std::size_t name_width,
                       std::size_t width, bool colour) {
  std::string waits;
  if (tower.stall_share >= 0.005)
    waits = "stalls " + human_share(tower.stall_share) + ": " + printable(tower.cause);
  const std::string right = pad(human_share(tower.step_share), 5, true) +
                            pad(human_count(tower.steps_per_s) + "/s", 9, true) + "  " +
                            pad(fit(waits, 28), 28);
  const std::string name = pad(fit(label, name_width), name_width);
  const std::size_t taken = name_width + 1 + display_width(right);
  if (taken + 4 > width) return fit(name + right, width);
  const Colour colour_of = tower.stall_share >= 0.2    ? Colour::red
                           : tower.stall_share >= 0.05 ? Colour::yellow
                                                       : Colour::green;
  return name + " " + paint(colour_of, bar(tower.step_share, width - taken), colour) + right;
}

/// The bar shows the share of the time in which the worker's threads work.
std::string worker_line(const WorkerRate& worker, std::size_t name_width, std::size_t width,
                        bool colour) {
  std::string way;
  if (worker.connected) {
    way = human_bytes(worker.bytes_per_s) + "/s, way " + human_seconds(worker.round_trip_s);
    if (worker.shared > 0) way += ", shared " + grouped(worker.shared);
    if (worker.hedged > 0) way += ", hedged " + grouped(worker.hedged);
    if (worker.lost > 0) way += ", lost " + grouped(worker.lost);
  } else {
    way = worker.problem.empty() ? "not connected" : printable(worker.problem);
  }
  const std::string right = pad(human_share(worker.busy_share), 5, true) +
                            pad(human_count(worker.elements_per_s) + "/s", 9, true) + "  " +
                            pad(fit(way, 44), 44);
  const std::string name = pad(fit("worker " + printable(worker.address), name_width), name_width);
  const std::size_t taken = name_width + 1 + display_width(right);
  if (taken + 4 > width) return fit(name + right, width);
  const Colour colour_of = worker.connected ? Colour::green : Colour::red;
  return name + " " + paint(colour_of, bar(worker.busy_share, width - taken), colour) + right;
}

}  // namespace

std::vector<std::string> render(const Scene& scene, const Meter& meter, const Stats& stats,
                                const Moment& moment, int width, int height) {
  // The last column stays free: a terminal may wrap a line that fills it.
  const auto columns = static_cast<std::size_t>(std::max(10, width - 1));
  const Rates rates = meter.rates();
  std::vector<std::string> lines;
  std::string right = human_seconds(moment.elapsed_s);
  if (scene.epochs > 1)
    right = "epoch " + std::to_string(std::min(moment.epoch + 1, scene.epochs)) + "/" +
            std::to_string(scene.epochs) + "  " + right;
  lines.push_back(
      both_ends(paint(Colour::bold, printable(scene.title), scene.colour), right, columns));
  lines.push_back(fit(counts(stats, rates) + faults(stats, scene.colour), columns));
  if (scene.expected > 0) lines.push_back(progress(scene, moment, columns));
  std::size_t name_width = kLeastName;
  for (const StageRate& stage : rates.stages)
    name_width = std::max(name_width, display_width(printable(stage.name)));
  for (const WorkerRate& worker : rates.workers)
    name_width = std::max(name_width, 7 + display_width(printable(worker.address)));
  name_width = std::min(name_width, std::max(kLeastName, columns / 3));
  lines.emplace_back();
  for (const StageRate& stage : rates.stages)
    lines.push_back(stage_line(stage, rates.threads, name_width, columns, scene.colour));
  if (!rates.workers.empty()) lines.emplace_back();
  for (const WorkerRate& worker : rates.workers)
    lines.push_back(worker_line(worker, name_width, columns, scene.colour));
  if (!rates.towers.empty()) lines.emplace_back();
  for (std::size_t t = 0; t < rates.towers.size(); ++t) {
    const TowerRate& tower = rates.towers[t];
    const std::string label = "tower " + std::to_string(t) + " " + tower.device;
    lines.push_back(tower_line(tower, label, name_width, columns, scene.colour));
  }
  const std::vector<double> history =
      meter.history(columns > name_width ? columns - name_width - 1 : 0);
  if (history.size() > 1) {
    lines.emplace_back();
    lines.push_back(paint(Colour::dim, pad("elements/s", name_width) + " ", scene.colour) +
                    paint(Colour::cyan, sparkline(history), scene.colour));
  }
  const auto most = static_cast<std::size_t>(std::max(3, height - 1));
  if (lines.size() > most) lines.resize(most);
  return lines;
}

std::string status_line(const Scene& scene, const Meter& meter, const Stats& stats,
                        const Moment& moment) {
  const Rates rates = meter.rates();
  std::string text = human_seconds(moment.elapsed_s) + ": ";
  if (scene.epochs > 1)
    text += "epoch " + std::to_string(std::min(moment.epoch + 1, scene.epochs)) + "/" +
            std::to_string(scene.epochs) + ", ";
  text += counts(stats, rates) + faults(stats, false);
  const auto stalls = [](const TowerRate& a, const TowerRate& b) {
    return a.stall_share < b.stall_share;
  };
  const auto worst = std::max_element(rates.towers.begin(), rates.towers.end(), stalls);
  if (worst != rates.towers.end())
    text += " · " + worst->device + " stalls " + human_share(worst->stall_share) +
            (worst->stall_share >= 0.005 ? ", mostly for " + printable(worst->cause) : "");
  const StageRate* top = nullptr;
  for (const StageRate& stage : rates.stages)
    if (top == nullptr || stage.busy_threads > top->busy_threads) top = &stage;
  if (top != nullptr && top->busy_threads > 0)
    text += " · busiest " + printable(top->name) + " " +
            human_share(top->busy_threads / std::max(1, rates.threads));
  if (!rates.workers.empty()) {
    const auto connected = std::ranges::count(rates.workers, true, &WorkerRate::connected);
    double bytes = 0;
    for (const WorkerRate& worker : rates.workers) bytes += worker.bytes_per_s;
    text += " · " + std::to_string(connected) + " of " + std::to_string(rates.workers.size()) +
            " workers, " + human_bytes(bytes) + "/s";
  }
  return text;
}

}  // namespace penstock::tool
