#include <penstock/report.h>

#include <algorithm>
#include <sstream>

#include <penstock/simd.h>
#include <penstock/version.h>

#include "report/observed.h"
#include "report/run_report.h"

namespace penstock {
namespace {

constexpr int kColumns = 100;

std::string jpeg_library() {
  std::istringstream lines(features());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("libjpeg")) return line;
  return "";
}

Report written(const RunReport& run) {
  return {verdict(run), report_text(run, false, kColumns), report_json(run)};
}

}  // namespace

std::optional<RemoteStats> asked_of_servers() noexcept {
  const RemoteStats remote = remote_stats();
  if (remote.requests == 0 && remote.bytes_cached == 0) return {};
  return remote;
}

std::optional<SlowShard> slow_shard_of_process() {
  return ShardTimes::of_process().slowest();
}

RunReport process_report() {
  RunReport report;
  report.version = version();
  report.jpeg_backend = jpeg_library();
  report.simd = simd();
  report.cpus = usable_processors();
  report.rss_peak_bytes = peak_resident_bytes();
  report.decoding = decoding_counts();
  report.remote = asked_of_servers();
  report.slow_shard = slow_shard_of_process();
  return report;
}

RunReport observed(Stats stats) {
  RunReport report = process_report();
  report.ending = Ending::running;
  report.elements = stats.elements;
  report.batches = stats.batches > 0 ? stats.batches : stats.elements;
  report.epochs = stats.first_s > 0 ? stats.epoch + 1 : 0;
  report.wall_s = stats.wall_s;
  report.first_batch_s = stats.first_s;
  report.wait_s = stats.wait_s;
  report.step_s = stats.wall_s - stats.wait_s;
  report.cpu_s = stats.cpu_s;
  if (stats.cpu_before) report.starved = cpu_times() - *stats.cpu_before;
  report.seed = stats.seed;
  report.guarantee = stats.guarantee;
  report.slot_bytes = stats.slot_bytes;
  for (const EpochStats& epoch : stats.epochs) report.audit.push_back({epoch, {}});
  report.stats = std::move(stats);
  return report;
}

RunReport observed(FeedStats stats) {
  const double first_s = stats.run.first_s;
  RunReport report = observed(std::move(stats.run));
  report.elements = report.batches = 0;
  report.wait_s = first_s;
  report.step_s = report.wall_s = 0;
  const auto towers = static_cast<double>(std::max<std::size_t>(1, stats.towers.size()));
  for (const TowerStats& tower : stats.towers) {
    report.elements += tower.elements;
    report.batches += tower.steps;
    report.wall_s = std::max(report.wall_s, tower.wall_s);
    report.wait_s += tower.stall_s / towers;
    report.step_s += tower.step_s / towers;
  }
  report.audit.clear();  // the input is ahead of the towers, and may have only a part of the epoch
  report.towers = std::move(stats.towers);
  report.feed = std::move(stats.verdict);
  report.device_slots = stats.slots;
  report.slots_wanted = stats.host_slots_wanted;
  report.lost = stats.lost;
  report.wrapped = stats.wrapped;
  return report;
}

Report report(const Iterator& run) {
  return written(observed(run.stats()));
}

Report report(const Feed& feed) {
  return written(observed(feed.stats()));
}

}  // namespace penstock
