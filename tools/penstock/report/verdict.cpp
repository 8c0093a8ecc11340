#include <algorithm>
#include <string>

#include "tools/penstock/report/report.h"
#include "tools/penstock/support/numbers.h"
#include "tools/penstock/support/text.h"

namespace penstock::tool {
namespace {

constexpr double kSaturated = 0.85;
constexpr double kKeepsUp = 0.05;
constexpr double kShort_s = 0.25;

const StageStats* busiest(const Stats& stats, std::size_t first) {
  const StageStats* best = nullptr;
  for (std::size_t i = first; i < stats.stages.size(); ++i)
    if (best == nullptr || stats.stages[i].busy_s > best->busy_s) best = &stats.stages[i];
  return best;
}

double total_busy(const Stats& stats) {
  double total = 0;
  for (const StageStats& stage : stats.stages) total += stage.busy_s;
  return total;
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
         human_share(report.wait_s / report.wall_s) + " of it; " +
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
  const double used = report.cpu_s / (report.wall_s * report.stats.threads);
  return printable(stage.name) + " limits the run: it takes " +
         human_share(all > 0 ? stage.busy_s / all : 0) + " of the work, and " +
         (report.stats.threads == 1
              ? "the one thread is "
              : "the " + std::to_string(report.stats.threads) + " threads are ") +
         human_share(std::min(1.0, used)) + " busy; " + compute_help(report, stage) + ".";
}

std::string reading_verdict(const Report& report, const StageStats& source) {
  const double readers = source.busy_s / report.wall_s;
  return printable(source.name) + " limits the run: on average " + human_count(readers) +
         " reads were under way while the threads computed " +
         human_share(report.cpu_s / (report.wall_s * report.stats.threads)) +
         " of the time; faster storage, larger shards" +
         (report.io == "io_uring" ? "" : ", --io io_uring") + " or more --io-threads would help.";
}

std::string memory_verdict(const Report& report, const StageStats& stage) {
  return "The memory budget limits the run: " + printable(stage.name) + " waited " +
         human_share(stage.wait_s / report.wall_s) + " of the time for room in " +
         human_bytes(static_cast<double>(report.stats.memory.budget_bytes)) + "; raise --memory.";
}

std::string sentence(const Report& report) {
  const Stats& stats = report.stats;
  const int threads = std::max(1, stats.threads);
  if (report.wait_s < kKeepsUp * report.wall_s) return consumer_verdict(report);
  const double cpu = report.cpu_s / (report.wall_s * threads);
  const StageStats* source = stats.stages.empty() ? nullptr : &stats.stages.front();
  const StageStats* work = busiest(stats, 1);
  const StageStats* top = busiest(stats, 0);
  if (top == nullptr) return "The run shows no stages.";
  if (work != nullptr &&
      (cpu >= kSaturated || work->busy_s >= kSaturated * report.wall_s * threads))
    return compute_verdict(report, top == source && cpu >= kSaturated ? *top : *work);
  for (const StageStats& stage : stats.stages)
    if (stage.waits_on == "memory" && stage.wait_s > 0.3 * report.wall_s)
      return memory_verdict(report, stage);
  if (top == source && source->busy_s > 0.5 * report.wall_s)
    return reading_verdict(report, *source);
  if (total_busy(stats) < 0.5 * report.wall_s && report.cpu_s > kSaturated * report.wall_s)
    return "Handing elements over limits the run: no stage works more than " +
           human_share(top->busy_s / report.wall_s) +
           " of the time; do more in each element, or batch earlier.";
  return printable(top->name) + " takes the most time (" +
         human_share(top->busy_s / (report.wall_s * threads)) + " of " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads") +
         "), but no stage is busy throughout; more batches ahead (--slots, --memory) or a longer "
         "run would show more.";
}

}  // namespace

double Report::stall_share() const noexcept {
  const double after = wall_s - first_batch_s;
  return after > 0 ? std::clamp((wait_s - first_batch_s) / after, 0.0, 1.0) : 0;
}

std::string verdict(const Report& report) {
  if (report.ending == Ending::failed) return "The run failed before its end.";
  if (report.ending == Ending::no_progress) return "The run made no progress and was given up.";
  if (report.elements == 0) return "Nothing was delivered.";
  std::string text = sentence(report);
  if (report.wall_s < kShort_s)
    text += " (The run was short; more --epochs would make this surer.)";
  return text;
}

}  // namespace penstock::tool
