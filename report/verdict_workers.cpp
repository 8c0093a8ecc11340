// The limits of a run whose elements are made by input workers: these, or the way to them.
#include <algorithm>
#include <cmath>
#include <string>

#include "report/format.h"
#include "report/printable.h"
#include "report/verdict.h"

namespace penstock {
namespace {

constexpr double kMatters = 0.1;  // of the groups
constexpr double kBusy = 0.7;
constexpr double kOnTheWay = 0.5;  // of the groups allowed for workers
constexpr double kConsumes = 0.05;

double made_elsewhere(const Stats& stats) {
  const auto all = static_cast<double>(stats.groups_of_workers + stats.groups_made_here);
  return all > 0 ? static_cast<double>(stats.groups_of_workers) / all : 0;
}

/// The totals of all workers of a run.
struct Together {
  explicit Together(const RunReport& report) {
    double busy_s = 0, on_the_way_s = 0, at_once = 0;
    for (const WorkerStats& worker : report.stats.workers) {
      if (!worker.connected) continue;
      const auto made = static_cast<double>(worker.groups);
      ++count;
      threads += std::max(1, worker.threads);
      at_once += static_cast<double>(worker.groups_at_once);
      groups += made;
      bytes += static_cast<double>(worker.received_bytes);
      packed = packed || worker.unpacked_bytes > worker.received_bytes;
      busy_s += worker.busy_s;
      on_the_way_s += made * worker.round_trip_s;
      if (made > 0 && (least_s == 0 || worker.least_round_trip_s < least_s))
        least_s = worker.least_round_trip_s;
    }
    if (groups <= 0 || at_once <= 0) return;
    busy = std::min(1.0, busy_s / (report.wall_s * threads));
    on_the_way = std::min(1.0, on_the_way_s / (report.wall_s * at_once));
    each = at_once / count;
    round_trip_s = on_the_way_s / groups;
    link = least_s * groups / report.wall_s;
  }

  bool queue() const { return round_trip_s > 2 * least_s; }

  int count = 0;
  int threads = 0;
  bool packed = false;  ///< some answers were compressed
  double groups = 0;
  double bytes = 0;
  double each = 0;        ///< groups allowed for each worker
  double busy = 0;        ///< of their threads' time
  double on_the_way = 0;  ///< of the groups allowed, without those that are being made
  double round_trip_s = 0;
  double least_s = 0;  ///< of a group that met no other, if there was one
  double link = 0;     ///< of the time, if all workers share one link and each answer has it alone
};

std::string more_workers(const RunReport& report, const Together& workers) {
  const double consumes = 1 - report.wait_s / report.wall_s;
  if (consumes < kConsumes)  // it would take any number
    return "each more worker would add up to " +
           human_count(report.elements_per_second() * made_elsewhere(report.stats) /
                       workers.count) +
           " elements/s";
  return human_count(workers_wanted(report)) + " workers instead of " +
         std::to_string(workers.count) + " would end the wait";
}

/// `left`, `half`: of the time that the elements of workers take.
void set_worker_prize(Verdict& verdict, const RunReport& report, double left, double half) {
  const double there = made_elsewhere(report.stats);
  const auto rate = [&](double of) { return there / std::max(0.01, of) + 1 - there; };
  const auto gain = [&](double of) {
    return std::min(report.wait_s, (1 - 1 / rate(of)) * report.wall_s);
  };
  const auto elements = static_cast<double>(report.elements);
  verdict.gain_s = gain(left);
  if (verdict.gain_s < 0.95 * report.wall_s)
    verdict.rate_then = elements / (report.wall_s - verdict.gain_s);
  verdict.rate_half = elements / (report.wall_s - gain(std::max(left, half)));
}

Verdict slow_workers(const RunReport& report, const Together& workers) {
  Verdict verdict{.cause = "workers"};
  set_worker_prize(verdict, report, workers.on_the_way, 0.5);
  verdict.remedy = more_workers(report, workers);
  verdict.text = (workers.count == 1 ? "The input worker limits the run: its "
                                     : "Input workers limit the run: the " +
                                           std::to_string(workers.count) + " of them have ") +
                 std::to_string(workers.threads) + (workers.threads == 1 ? " thread" : " threads") +
                 (workers.count == 1 ? (workers.threads == 1 ? " is " : " are ") : ", which are ") +
                 human_share(workers.busy) + " busy; " + verdict.remedy + ".";
  return verdict;
}

Verdict slow_network(const RunReport& report, const Together& workers) {
  Verdict verdict{.cause = "network"};
  set_worker_prize(verdict, report, workers.busy, 0.5);
  const std::string busy = human_share(workers.busy) + " busy";
  const double answer = workers.bytes / workers.groups;
  if (workers.queue()) {
    const double came = workers.bytes / report.wall_s;
    const double alone = workers.least_s > 0 ? answer / workers.least_s : came;
    verdict.remedy = std::string("fewer bytes (u8 images that are finished on the device") +
                     (workers.packed ? "" : std::string(", ") + knobs(report).wire) +
                     ") or a faster link would help";
    verdict.text = "The network to input workers limits the run: " + human_bytes(came) +
                   "/s arrive (the fastest answer at " + human_bytes(std::max(alone, came)) +
                   "/s), an answer of " + human_bytes(answer) + " is " +
                   human_seconds(workers.round_trip_s) + " in transit, and the workers are only " +
                   busy + "; " + verdict.remedy + ".";
    return verdict;
  }
  verdict.remedy = "nearer workers would help, and " + more_workers(report, workers);
  verdict.text = "The latency to input workers limits the run: an answer of " +
                 human_bytes(answer) + " takes " + human_seconds(workers.round_trip_s) +
                 " in transit, and with the " + human_count(std::round(workers.each)) +
                 " groups that each may have in flight, they are only " + busy + "; " +
                 verdict.remedy + ".";
  return verdict;
}

}  // namespace

double workers_wanted(const RunReport& report) {
  const auto connected = std::ranges::count(report.stats.workers, true, &WorkerStats::connected);
  const double busy = report.wall_s > 0 ? 1 - report.wait_s / report.wall_s : 1;
  return std::ceil(static_cast<double>(connected) / std::clamp(busy, 0.01, 1.0));
}

double made_here(const Stats& stats) noexcept {
  return 1 - made_elsewhere(stats);
}

RunReport local_part(const RunReport& report) {
  RunReport local = report;
  double all = 0, elsewhere = 0;
  for (const StageStats& stage : report.stats.stages) all += stage.busy_s;
  for (const WorkerStats& worker : report.stats.workers) elsewhere += worker.busy_s;
  if (all <= 0 || elsewhere <= 0) return local;
  const double here = std::clamp(1 - elsewhere / all, 0.0, 1.0);
  for (StageStats& stage : local.stats.stages) {
    stage.busy_s *= here;
    stage.apart_s *= here;
  }
  return local;
}

std::optional<Verdict> workers_verdict(const RunReport& report) {
  if (made_elsewhere(report.stats) < kMatters || report.wall_s <= 0) return std::nullopt;
  const Together workers(report);
  if (workers.groups <= 0) return std::nullopt;
  if (workers.busy >= kBusy) return slow_workers(report, workers);
  // Answers also wait if this process lacks the CPU time to receive them.
  const bool computes = report.cpu_s >= kBusy * report.wall_s * std::max(1, report.cpus);
  const bool full = workers.on_the_way >= kOnTheWay || (workers.queue() && workers.link >= kBusy);
  if (full && !computes && cpu_share(report) >= 1) return slow_network(report, workers);
  return std::nullopt;
}

Verdict idle_workers_verdict(const RunReport& report, const std::string& remedy) {
  const Together workers(report);
  return {.remedy = remedy,
          .text = "Input workers make most of the groups, but are only " +
                  human_share(workers.busy) + " busy, and no more than " +
                  human_share(workers.on_the_way) +
                  " of the groups that they may have are in flight; " + remedy + "."};
}

std::string missing_workers(const RunReport& report) {
  const auto gone = std::ranges::find_if(report.stats.workers, [](const WorkerStats& worker) {
    return !worker.connected && !worker.problem.empty();
  });
  if (gone == report.stats.workers.end()) return "";
  const auto count = std::ranges::count(report.stats.workers, false, &WorkerStats::connected);
  return " " + std::to_string(count) + " of " + std::to_string(report.stats.workers.size()) +
         " input workers " + (count == 1 ? "is" : "are") +
         " not available: " + printable(gone->address) + ": " + printable(gone->problem) + ".";
}

}  // namespace penstock
