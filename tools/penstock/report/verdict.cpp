#include "tools/penstock/report/verdict.h"

#include <algorithm>
#include <bit>
#include <string>

#include <penstock/input_parts.h>
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

bool decodes(const StageStats& stage) {
  return stage.name.find("decode") != std::string::npos;
}

/// Of all stages but the source, which may wait for its reads.
double computing(const Report& report) {
  double busy_s = 0;
  for (std::size_t i = 1; i < report.stats.stages.size(); ++i)
    busy_s += report.stats.stages[i].busy_s;
  return busy_s;
}

/// True if threads neither ran nor wanted to while they were busy.
bool waits_inside(const Report& report) {
  const CpuTimes& times = report.starved;
  return times.ran_s > 0 && times.ran_s + times.waited_s < 0.6 * computing(report);
}

std::string rate_text(double rate) {
  return human_count(rate) + " elements/s";
}

Verdict consumer_verdict(const Report& report) {
  const bool stepping = report.step_s > report.digest_s;
  const std::string who = stepping              ? "the simulated step"
                          : report.digest_s > 0 ? "computing digests and dumps"
                                                : "taking the batches";
  const double share = (stepping ? report.step_s : report.digest_s) / report.wall_s;
  Verdict verdict{.cause = "step"};
  verdict.remedy = stepping ? "a faster input would change nothing"
                            : "run without --digest to see how fast the pipeline is";
  verdict.text = "The consumer limits the run, not the pipeline: " + who + " took " +
                 human_share(std::min(1.0, share)) + " of the time and waited for input only " +
                 human_share(report.stall_share()) + " of it; " + verdict.remedy + ".";
  return verdict;
}

/// What is gained where only `left` of the input's time is left, or `half` without half of a cause.
void set_prize(Verdict& verdict, const Report& report, double left, double half) {
  const auto elements = static_cast<double>(report.elements);
  const auto gain = [&](double share) { return std::min(report.wait_s, share * report.wall_s); };
  verdict.gain_s = gain(1 - left);
  if (verdict.gain_s <= 0) return;
  // Where next to nothing is left there is no saying what comes to the fore then.
  if (verdict.gain_s < 0.95 * report.wall_s)
    verdict.rate_then = elements / (report.wall_s - verdict.gain_s);
  verdict.rate_half = elements / (report.wall_s - gain(1 - half));
}

Verdict part_verdict(const Report& report, const std::string& cause) {
  Verdict verdict{.cause = cause};
  for (const InputPart& part : input_parts({}, report.stats, report.wall_s))
    if (part.cause == cause) set_prize(verdict, report, part.left, part.half);
  return verdict;
}

Verdict compute_verdict(const Report& report, const StageStats& stage) {
  const bool source = &stage == &report.stats.stages.front();
  Verdict verdict = part_verdict(report, source ? "source" : "stage " + stage.name);
  const double all = total_busy(report.stats);
  const double threads = report.stats.threads;
  // Where other processes take the processors, threads are busy without getting CPU time.
  const double used = std::min(1.0, std::max(report.cpu_s, all) / (report.wall_s * threads));
  verdict.remedy = compute_help(report, stage);
  verdict.text = short_name(stage) + " limits the run: it takes " +
                 human_share(all > 0 ? stage.busy_s / all : 0) + " of the work, and " +
                 (report.stats.threads == 1
                      ? "the one thread is "
                      : "the " + std::to_string(report.stats.threads) + " threads are ") +
                 human_share(used) + " busy; " + verdict.remedy + ".";
  if (used > 0.9) {
    verdict.text += " A core more would bring up to " +
                    rate_text(report.elements_per_second() * (threads + 1) / threads) + ".";
  }
  return verdict;
}

Verdict reading_verdict(const Report& report, const StageStats& source) {
  Verdict verdict = part_verdict(report, "source");
  const double readers = source.busy_s / report.wall_s;
  verdict.remedy = reading_help(report);
  verdict.text = short_name(source) + " limits the run: on average " + human_count(readers) +
                 " reads were under way while the threads computed " +
                 human_share(report.cpu_s / (report.wall_s * report.stats.threads)) +
                 " of the time; " + verdict.remedy + ".";
  return verdict;
}

Verdict memory_verdict(const Report& report, const std::string& because) {
  Verdict verdict{.cause = "budget"};
  const double busy = total_busy(report.stats) / (report.wall_s * report.stats.threads);
  set_prize(verdict, report, std::min(1.0, busy), 1);
  verdict.rate_half = 0;  // how much a little more brings depends on sizes
  verdict.remedy = memory_help(report);
  verdict.text = "The memory budget limits the run: " + because + "; " + verdict.remedy + ".";
  return verdict;
}

/// What the stages did not account for: moving elements between them.
bool hands_over(const Report& report, const StageStats& top) {
  return total_busy(report.stats) < 0.6 * report.cpu_s && top.busy_s < 0.5 * report.wall_s;
}

Verdict hand_over_verdict(const Report& report) {
  Verdict verdict{.cause = "hand-over"};
  verdict.remedy = "more work in each element, or an earlier batch, would use it better";
  verdict.text = "Handing elements over limits the run: the stages' own work is only " +
                 human_share(std::min(1.0, total_busy(report.stats) / report.cpu_s)) +
                 " of the CPU time; " + verdict.remedy + ".";
  return verdict;
}

Verdict input_verdict(const Report& report) {
  const Stats& stats = report.stats;
  const double capacity_s = report.wall_s * std::max(1, stats.threads);
  const StageStats& source = stats.stages.front();
  const StageStats& top = *busiest(stats);
  const bool saturated =
      report.cpu_s >= kSaturated * capacity_s || total_busy(stats) >= kSaturated * capacity_s;
  for (const StageStats& stage : stats.stages) {
    if (stage.waits_on == "memory" && stage.wait_s > 0.3 * report.wall_s)
      return memory_verdict(
          report, short_name(stage) + " waited " + human_share(stage.wait_s / report.wall_s) +
                      " of the time for room in " +
                      human_bytes(static_cast<double>(stats.memory.budget_bytes)));
  }
  if (!saturated && report.slot_bytes > 0 && slots_that_fit(report) <= 2 &&
      slots_that_fit(report) < report.slots_wanted)
    return memory_verdict(report, "the threads computed " +
                                      human_share(total_busy(stats) / capacity_s) +
                                      " of the time, and else waited for a batch to be taken");
  if (hands_over(report, top)) return hand_over_verdict(report);
  if (cpu_share(report) < 1) return starved_verdict(report);
  if (&top == &source && report.cpu_s < kSaturated * capacity_s &&
      source.busy_s > 0.5 * report.wall_s)
    return reading_verdict(report, source);
  if (saturated) return compute_verdict(report, top);
  Verdict verdict = part_verdict(report, &top == &source ? "source" : "stage " + top.name);
  verdict.remedy = "more batches ahead (--slots, --memory) would help";
  verdict.text = short_name(top) + " takes the most time (" + human_share(top.busy_s / capacity_s) +
                 " of " + std::to_string(stats.threads) +
                 (stats.threads == 1 ? " thread" : " threads") +
                 "), but no stage is busy throughout; " + verdict.remedy + ".";
  return verdict;
}

Verdict judge(const Report& report) {
  if (!report.towers.empty()) return towers_verdict(report);
  // The first batch is always waited for.
  if (report.batches > 1 && report.stall_share() < kKeepsUp) return consumer_verdict(report);
  if (report.stats.stages.empty()) return {.text = "The run shows no stages."};
  Verdict verdict = input_verdict(report);
  verdict.text += prize(verdict, report);
  return verdict;
}

}  // namespace

std::string short_name(const StageStats& stage) {
  return fit(printable(stage.name), 40);
}

std::string compute_help(const Report& report, const StageStats& stage) {
  if (waits_inside(report))
    return "its threads ran only " + human_share(report.starved.ran_s / computing(report)) +
           " of the time that they were in it: they wait there, as for a lock or a sleep, and no "
           "more "
           "threads would help";
  const int threads = report.stats.threads;
  if (threads < report.cpus)
    return "raise --threads (" + std::to_string(threads) + " of " + std::to_string(report.cpus) +
           " cores are used)";
  if (decodes(stage))
    return "more cores, or images stored no larger than they are used, would help";
  return "more cores or less work in that stage would help";
}

std::string reading_help(const Report& report) {
  return std::string("faster storage, larger shards") +
         (report.io == "io_uring" ? "" : ", --io io_uring") + " or more --io-threads would help";
}

int slots_that_fit(const Report& report) {
  // An eighth is left for what is in flight.
  const std::uint64_t fit = report.stats.memory.budget_bytes / 8 * 7 / report.slot_bytes;
  return static_cast<int>(std::clamp<std::uint64_t>(fit, 1, INT32_MAX));
}

std::string memory_help(const Report& report) {
  const auto counted = [](int count) {
    constexpr const char* kWords[] = {"no", "one", "two", "three", "four"};
    return count < 5 ? std::string(kWords[count]) : std::to_string(count);
  };
  if (report.slot_bytes == 0 || slots_that_fit(report) >= report.slots_wanted)
    return "raise --memory";
  const int have = slots_that_fit(report);
  const auto need = static_cast<std::uint64_t>(report.slots_wanted) * report.slot_bytes / 7 * 8;
  // A round figure above it: in steps of an eighth of the power of two below.
  const std::uint64_t grain = std::max<std::uint64_t>(std::bit_floor(need) / 8, 1U << 20);
  return counted(have) + (have == 1 ? " batch slot fits in " : " batch slots fit in ") +
         human_bytes(static_cast<double>(report.stats.memory.budget_bytes)) + ", " +
         counted(report.slots_wanted) + " need " + human_bytes(static_cast<double>(need)) +
         ": --memory " + exact_bytes(static_cast<std::int64_t>((need + grain - 1) / grain * grain));
}

double cpu_share(const Report& report) {
  constexpr double kEnough = 0.75;
  const CpuTimes& times = report.starved;
  const double could = times.ran_s + times.waited_s;
  if (could <= 0 || times.ran_s >= kEnough * could) return 1;
  // Else they stood in each other's way, which is no more than too many threads.
  const bool all_used = report.cpu_s >= 0.85 * report.wall_s * report.cpus;
  return all_used ? 1 : times.ran_s / could;
}

Verdict starved_verdict(const Report& report) {
  const CpuTimes& times = report.starved;
  Verdict verdict{.cause = "cpu"};
  const bool quota = times.throttled_s > 0.1 * report.wall_s;
  set_prize(verdict, report, cpu_share(report), (1 + cpu_share(report)) / 2);
  verdict.remedy = quota ? "a larger quota" : "a quieter machine, or fewer processes beside it";
  verdict.text = "Too little CPU limits the run: the threads had one for " +
                 human_share(cpu_share(report)) + " of the time in which they could have run; ";
  if (quota) {
    verdict.text += "a quota stopped them for " + human_seconds(times.throttled_s);
  } else {
    verdict.text += "other processes had it";
    if (times.pressure_s > 0)
      verdict.text += " (somebody waited for a CPU " +
                      human_share(std::min(1.0, times.pressure_s / report.wall_s)) +
                      " of the time)";
  }
  verdict.text += "; " + verdict.remedy + " would help.";
  return verdict;
}

std::string prize(const Verdict& verdict, const Report& report) {
  const double now = report.elements_per_second();
  std::string text;
  if (verdict.rate_half > 1.02 * now)
    text = " With half as much of it there would be " + rate_text(verdict.rate_half);
  if (verdict.rate_then > 1.02 * now)
    text += (text.empty() ? " There would be at most " : ", without it at most ") +
            rate_text(verdict.rate_then);
  return text.empty() ? text : text + " instead of " + rate_text(now) + ".";
}

double Report::stall_share() const noexcept {
  const double after = wall_s - first_batch_s;
  return after > 0 ? std::clamp((wait_s - first_batch_s) / after, 0.0, 1.0) : 0;
}

Verdict verdict(const Report& report) {
  if (report.ending == Ending::failed) return {.text = "The run failed before its end."};
  if (report.ending == Ending::device_lost) return {.text = "A device was lost."};
  if (report.ending == Ending::no_progress)
    return {.text = "The run made no progress and was given up."};
  if (report.elements == 0) return {.text = "Nothing was delivered."};
  Verdict verdict = judge(report);
  if (report.wall_s < kShort_s)
    verdict.text += " (The run was short; more --epochs would make this surer.)";
  return verdict;
}

}  // namespace penstock::tool
