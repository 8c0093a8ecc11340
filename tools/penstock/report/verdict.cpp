#include <algorithm>
#include <string>

#include "tools/penstock/report/report.h"
#include "tools/penstock/support/numbers.h"
#include "tools/penstock/support/terminal.h"
#include "tools/penstock/support/text.h"

namespace penstock::tool {
namespace {

constexpr double kSaturated = 0.7;
constexpr double kKeepsUp = 0.05;
constexpr double kShort_s = 0.25;

const StageStats* busiest(const Stats& stats) {
  const StageStats* best = nullptr;
  for (const StageStats& stage : stats.stages)
    if (best == nullptr || stage.busy_s > best->busy_s) best = &stage;
  return best;
}

double total_busy(const Stats& stats) {
  double total = 0;
  for (const StageStats& stage : stats.stages) total += stage.busy_s;
  return total;
}

/// A fused chain's name lists all of its ops.
std::string short_name(const StageStats& stage) {
  return fit(printable(stage.name), 40);
}

bool decodes(const StageStats& stage) {
  return stage.name.find("decode") != std::string::npos;
}

std::string consumer_verdict(const Report& report) {
  const bool stepping = report.step_s > report.digest_s;
  const std::string who = stepping              ? "the simulated step"
                          : report.digest_s > 0 ? "computing digests and dumps"
                                                : "taking the batches";
  const double share = (stepping ? report.step_s : report.digest_s) / report.wall_s;
  return "The consumer limits the run, not the pipeline: " + who + " took " +
         human_share(std::min(1.0, share)) + " of the time and waited for input only " +
         human_share(report.stall_share()) + " of it; " +
         (stepping ? "a faster input would change nothing."
                   : "run without --digest to see how fast the pipeline is.");
}

std::string compute_help(const Report& report, const StageStats& stage) {
  const int threads = report.stats.threads;
  if (threads < report.cpus)
    return "raise --threads (" + std::to_string(threads) + " of " + std::to_string(report.cpus) +
           " cores are used)";
  if (decodes(stage))
    return "more cores, or images stored no larger than they are used, would help";
  return "more cores or less work in that stage would help";
}

std::string compute_verdict(const Report& report, const StageStats& stage) {
  const double all = total_busy(report.stats);
  // Where other processes take the processors, threads are busy without getting CPU time.
  const double used = std::max(report.cpu_s, all) / (report.wall_s * report.stats.threads);
  return short_name(stage) + " limits the run: it takes " +
         human_share(all > 0 ? stage.busy_s / all : 0) + " of the work, and " +
         (report.stats.threads == 1
              ? "the one thread is "
              : "the " + std::to_string(report.stats.threads) + " threads are ") +
         human_share(std::min(1.0, used)) + " busy; " + compute_help(report, stage) + ".";
}

std::string reading_verdict(const Report& report, const StageStats& source) {
  const double readers = source.busy_s / report.wall_s;
  return short_name(source) + " limits the run: on average " + human_count(readers) +
         " reads were under way while the threads computed " +
         human_share(report.cpu_s / (report.wall_s * report.stats.threads)) +
         " of the time; faster storage, larger shards" +
         (report.io == "io_uring" ? "" : ", --io io_uring") + " or more --io-threads would help.";
}

std::string memory_verdict(const Report& report, const StageStats& stage) {
  return "The memory budget limits the run: " + short_name(stage) + " waited " +
         human_share(stage.wait_s / report.wall_s) + " of the time for room in " +
         human_bytes(static_cast<double>(report.stats.memory.budget_bytes)) + "; raise --memory.";
}

/// What the stages did not account for: moving elements between them.
bool hands_over(const Report& report, const StageStats& top) {
  return total_busy(report.stats) < 0.6 * report.cpu_s && top.busy_s < 0.5 * report.wall_s;
}

std::string hand_over_verdict(const Report& report) {
  return "Handing elements over limits the run: the stages' own work is only " +
         human_share(std::min(1.0, total_busy(report.stats) / report.cpu_s)) +
         " of the CPU time; more work in each element, or an earlier batch, would use it better.";
}

std::string sentence(const Report& report) {
  const Stats& stats = report.stats;
  const double capacity_s = report.wall_s * std::max(1, stats.threads);
  // The first batch is always waited for.
  if (report.batches > 1 && report.stall_share() < kKeepsUp) return consumer_verdict(report);
  if (stats.stages.empty()) return "The run shows no stages.";
  const StageStats& source = stats.stages.front();
  const StageStats& top = *busiest(stats);
  for (const StageStats& stage : stats.stages)
    if (stage.waits_on == "memory" && stage.wait_s > 0.3 * report.wall_s)
      return memory_verdict(report, stage);
  if (hands_over(report, top)) return hand_over_verdict(report);
  if (&top == &source && report.cpu_s < kSaturated * capacity_s &&
      source.busy_s > 0.5 * report.wall_s)
    return reading_verdict(report, source);
  if (report.cpu_s >= kSaturated * capacity_s || total_busy(stats) >= kSaturated * capacity_s)
    return compute_verdict(report, top);
  return short_name(top) + " takes the most time (" + human_share(top.busy_s / capacity_s) +
         " of " + std::to_string(stats.threads) + (stats.threads == 1 ? " thread" : " threads") +
         "), but no stage is busy throughout; more batches ahead (--slots, --memory) would help.";
}

}  // namespace

double Report::stall_share() const noexcept {
  const double after = wall_s - first_batch_s;
  return after > 0 ? std::clamp((wait_s - first_batch_s) / after, 0.0, 1.0) : 0;
}

std::string verdict(const Report& report) {
  if (report.ending == Ending::failed) return "The run failed before its end.";
  if (report.ending == Ending::device_lost) return "A device was lost.";
  if (report.ending == Ending::no_progress) return "The run made no progress and was given up.";
  if (report.elements == 0) return "Nothing was delivered.";
  std::string text = sentence(report);
  if (report.wall_s < kShort_s)
    text += " (The run was short; more --epochs would make this surer.)";
  return text;
}

}  // namespace penstock::tool
