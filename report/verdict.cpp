#include "report/verdict.h"

#include <algorithm>
#include <bit>
#include <string>

#include <penstock/internal/input_parts.h>
#include "report/format.h"
#include "report/pace.h"
#include "report/printable.h"
#include "report/text_layout.h"

namespace penstock {
namespace {

constexpr double kSaturated = 0.7;
constexpr double kKeepsUp = 0.05;
constexpr double kShort_s = 0.1;
constexpr std::uint64_t kFewElements = 100;

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

/// Returns the busy time of all stages, except for that of threads that may wait.
double computing(const RunReport& report) {
  return pace_of(report.stats).computing * std::max(1, report.stats.threads);
}

/// Returns the share of the run in which its input worked.
double working(const RunReport& report) {
  return std::min(1.0, pace_of(report.stats).works() / report.wall_s);
}

/// True if threads neither ran nor wanted to while they were busy.
bool waits_inside(const RunReport& report) {
  const CpuTimes& times = report.starved;
  return times.ran_s > 0 && times.ran_s + times.waited_s < 0.6 * computing(report);
}

std::string rate_text(double rate) {
  return human_count(rate) + " elements/s";
}

/// For a program of its own, whose steps were not timed.
Verdict loop_verdict(const RunReport& report) {
  return {.cause = "step",
          .remedy = "a faster input would change nothing",
          .text =
              "The program's own work between batches limits the run: it waited for input "
              "only " +
              human_share(report.stall_share()) +
              " of the time after the first; a faster input would change nothing."};
}

Verdict consumer_verdict(const RunReport& report) {
  if (!report.of_program) return loop_verdict(report);
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

Verdict part_verdict(const RunReport& report, const std::string& cause) {
  Verdict verdict{.cause = cause};
  for (const InputPart& part : input_parts({}, report.stats, report.wall_s))
    if (part.cause == cause) set_prize(verdict, report, part.left, part.half);
  return verdict;
}

Verdict compute_verdict(const RunReport& report, const StageStats& stage) {
  const bool source = &stage == &report.stats.stages.front();
  Verdict verdict = part_verdict(report, source ? "source" : "stage " + stage.name);
  const double all = total_busy(report.stats);
  const double threads = report.stats.threads;
  // If other processes use the CPUs, threads are busy without getting CPU time.
  const double used = std::min(1.0, std::max(report.cpu_s, all) / (report.wall_s * threads));
  verdict.remedy = compute_help(report, stage);
  verdict.text = short_name(stage) + " limits the run: it takes " +
                 human_share(all > 0 ? stage.busy_s / all : 0) + " of the work, and " +
                 (report.stats.threads == 1
                      ? "the one thread is "
                      : "the " + std::to_string(report.stats.threads) + " threads are ") +
                 human_share(used) + " busy; " + verdict.remedy + ".";
  return verdict;
}

/// True if the run has nearly all CPUs that it may use.
bool has_all_cpus(const RunReport& report) {
  return report.cpu_s >= kSaturated * report.wall_s * report.cpus;
}

Verdict reading_verdict(const RunReport& report, const StageStats& source) {
  Verdict verdict = part_verdict(report, "source");
  if (has_all_cpus(report)) {  // readers then wait for each other, and do no work meanwhile
    const double share = source.busy_s / total_busy(report.stats);
    set_prize(verdict, report, 1 - share, 1 - share / 2);
  }
  const double readers = source.busy_s / report.wall_s;
  verdict.remedy = reading_help(report);
  verdict.text = short_name(source) + " limits the run: on average " + human_count(readers) +
                 " reads were under way while the threads computed " +
                 human_share(report.cpu_s / (report.wall_s * report.stats.threads)) +
                 " of the time; " + verdict.remedy + ".";
  return verdict;
}

/// For a map whose callable may wait.
Verdict waiting_verdict(const RunReport& report, const StageStats& stage) {
  Verdict verdict = part_verdict(report, "stage " + stage.name);
  verdict.remedy = waiting_help(report);
  verdict.text = short_name(stage) + " limits the run: on average " +
                 human_count(stage.apart_s / report.wall_s) +
                 " threads were in it, which may wait there; " + verdict.remedy + ".";
  return verdict;
}

Verdict memory_verdict(const RunReport& report, const std::string& because) {
  Verdict verdict{.cause = "budget"};
  set_prize(verdict, report, working(report), 1);
  verdict.rate_half = 0;  // the gain of a little more memory depends on sizes
  verdict.remedy = memory_help(report);
  verdict.text = "The memory budget limits the run: " + because + "; " + verdict.remedy + ".";
  return verdict;
}

/// True if most CPU time is outside of the stages: it moves elements between them.
bool hands_over(const RunReport& report, const StageStats& top) {
  constexpr std::uint64_t kMany = 100;  // with fewer, the CPU time is that of the start
  if (report.elements < kMany) return false;
  if (report.stats.groups_of_workers > 0 && report.cpu_s < 0.5 * report.wall_s) return false;
  return total_busy(report.stats) < 0.6 * report.cpu_s && top.busy_s < 0.5 * report.wall_s;
}

Verdict hand_over_verdict(const RunReport& report) {
  Verdict verdict{.cause = "hand-over"};
  set_prize(verdict, report, working(report), 1);
  verdict.rate_half = 0;
  verdict.remedy = "more work in each element, or an earlier batch, would use it better";
  verdict.text = "Handing elements over limits the run: the stages' own work is only " +
                 human_share(std::min(1.0, total_busy(report.stats) / report.cpu_s)) +
                 " of the CPU time; " + verdict.remedy + ".";
  return verdict;
}

Verdict input_verdict(const RunReport& report) {
  const Stats& stats = report.stats;
  const double capacity_s = report.wall_s * std::max(1, stats.threads);
  const StageStats& source = stats.stages.front();
  const StageStats& top = *busiest(stats);
  const bool saturated =
      report.cpu_s >= kSaturated * capacity_s || computing(report) >= kSaturated * capacity_s;
  for (const StageStats& stage : stats.stages) {
    if (stage.waits_on == "memory" && stage.wait_s > 0.3 * report.wall_s)
      return memory_verdict(
          report, short_name(stage) + " waited " + human_share(stage.wait_s / report.wall_s) +
                      " of the time for room in " +
                      human_bytes(static_cast<double>(stats.memory.budget_bytes)));
  }
  if (!saturated && working(report) < kSaturated && report.slot_bytes > 0 &&
      slots_that_fit(report) <= 2 && slots_that_fit(report) < report.slots_wanted)
    return memory_verdict(report, "the input worked " + human_share(working(report)) +
                                      " of the time, and else waited for a batch to be taken");
  if (hands_over(report, top)) return hand_over_verdict(report);
  if (cpu_share(report) < 1) return starved_verdict(report);
  if (&top == &source && report.cpu_s < kSaturated * capacity_s &&
      source.busy_s > 0.5 * report.wall_s)
    return reading_verdict(report, source);
  if (saturated) return compute_verdict(report, top);
  if (top.apart_s > 0.5 * top.busy_s && top.apart_s > 0.5 * report.wall_s)
    return waiting_verdict(report, top);
  Verdict verdict = part_verdict(report, &top == &source ? "source" : "stage " + top.name);
  verdict.remedy = std::string("more batches ahead (") + knobs(report).slots + ", " +
                   knobs(report).memory + ") would help";
  if (made_here(stats) < 0.5) return idle_workers_verdict(report, verdict.remedy);
  verdict.text = short_name(top) + " takes the most time (" + human_share(top.busy_s / capacity_s) +
                 " of " + std::to_string(stats.threads) +
                 (stats.threads == 1 ? " thread" : " threads") +
                 "), but no stage is busy throughout; " + verdict.remedy + ".";
  return verdict;
}

/// REQUIRES: `report` is a local part.
Verdict judge(const RunReport& report) {
  if (!report.towers.empty()) return towers_verdict(report);
  // Every run waits for its first batch.
  if (report.batches > 1 && report.stall_share() < kKeepsUp) return consumer_verdict(report);
  if (report.stats.stages.empty()) return {.text = "The run shows no stages."};
  const std::optional<Verdict> elsewhere = workers_verdict(report);
  Verdict verdict = elsewhere ? *elsewhere : input_verdict(report);
  verdict.text += prize(verdict, report);
  return verdict;
}

}  // namespace

const Knobs& knobs(const RunReport& report) noexcept {
  static constexpr Knobs kFlags{"--threads",  "--io-threads",         "--memory",
                                "--slots",    "--device-slots ",      "--pace free",
                                "--wire lz4", "--remote-connections", "--cache-dir"};
  static constexpr Knobs kFields{
      "RunOptions::threads", "RunOptions::io_threads",     "RunOptions::memory_bytes",
      "RunOptions::slots",   "FeedOptions::slots = ",      "FeedOptions::in_turn = false",
      "WorkerOptions::wire", "RemoteOptions::connections", "RemoteOptions::cache_dir"};
  static constexpr Knobs kKeys{
      "threads in [run]",  "io_threads in [run]", "--memory",      "slots in [run]",
      "device slots = ",   "towers out of turn",  "wire in [run]", "remote_connections in [run]",
      "cache_dir in [run]"};
  if (report.of_training) return kKeys;
  return report.of_program ? kFlags : kFields;
}

std::string short_name(const StageStats& stage) {
  return fit(printable(stage.name), 40);
}

std::string compute_help(const RunReport& report, const StageStats& stage) {
  if (waits_inside(report))
    return "its threads ran only " + human_share(report.starved.ran_s / computing(report)) +
           " of the time that they were in it: they wait there, as for a lock or a sleep, and no "
           "more "
           "threads would help";
  const int threads = report.stats.threads;
  if (threads < report.cpus)
    return std::string("raise ") + knobs(report).threads + " (" + std::to_string(threads) + " of " +
           std::to_string(report.cpus) + " cores are used)";
  if (decodes(stage))
    return "more cores, or images stored no larger than they are used, would help";
  return "more cores or less work in that stage would help";
}

std::string reading_help(const RunReport& report) {
  if (report.remote && report.remote->requests > 0) return servers_help(report);
  // Reads of what is in the page cache take no storage, but a CPU that copies.
  if (has_all_cpus(report)) {
    const bool copies = report.of_program && report.io != "mmap";
    return std::string("the CPUs are busy, so faster storage would change nothing; more cores") +
           (copies ? ", or --io mmap, which copies less," : "") + " would help";
  }
  const bool other_io = report.of_program && report.io != "io_uring";
  return std::string("faster storage, larger shards") + (other_io ? ", --io io_uring" : "") +
         " or more " + knobs(report).io_threads + " would help";
}

std::string waiting_help(const RunReport& report) {
  return std::string("less waiting in it, or more ") + knobs(report).io_threads + ", would help";
}

namespace {

/// Returns the bytes of elements that are made but in no slot yet. If a map waits, each thread that
/// makes elements has one. Otherwise they fit into the eighth of the budget that slots leave.
std::uint64_t in_flight(const RunReport& report) {
  double waits = 0;
  for (std::size_t i = 1; i < report.stats.stages.size(); ++i)
    waits += report.stats.stages[i].apart_s;
  if (waits <= 0 || report.batches == 0 || report.elements == 0) return 0;
  const auto makers = static_cast<std::uint64_t>(report.stats.threads + report.stats.readers);
  return makers * report.slot_bytes / std::max<std::uint64_t>(1, report.elements / report.batches);
}

}  // namespace

int slots_that_fit(const RunReport& report) {
  const std::uint64_t budget = report.stats.memory.budget_bytes;
  const std::uint64_t room = std::min(budget / 8 * 7, budget - std::min(budget, in_flight(report)));
  return static_cast<int>(std::clamp<std::uint64_t>(room / report.slot_bytes, 1, INT32_MAX));
}

std::string memory_help(const RunReport& report) {
  const auto counted = [](int count) {
    constexpr const char* kWords[] = {"no", "one", "two", "three", "four"};
    return count < 5 ? std::string(kWords[count]) : std::to_string(count);
  };
  if (report.slot_bytes == 0 || slots_that_fit(report) >= report.slots_wanted)
    return std::string("raise ") + knobs(report).memory;
  const int have = slots_that_fit(report);
  const std::uint64_t slots = static_cast<std::uint64_t>(report.slots_wanted) * report.slot_bytes;
  const std::uint64_t need = std::max(slots / 7 * 8, slots + in_flight(report));
  // A round figure above the need, in steps of an eighth of the next lower power of two.
  const std::uint64_t grain = std::max<std::uint64_t>(std::bit_floor(need) / 8, 1U << 20);
  const std::uint64_t round = (need + grain - 1) / grain * grain;
  return counted(have) + (have == 1 ? " batch slot fits in " : " batch slots fit in ") +
         human_bytes(static_cast<double>(report.stats.memory.budget_bytes)) + ", " +
         counted(report.slots_wanted) + " need " + human_bytes(static_cast<double>(need)) + ": " +
         knobs(report).memory +
         (report.of_program ? " " + exact_bytes(static_cast<std::int64_t>(round))
                            : " = " + std::to_string(round >> 20) + " << 20");
}

void set_prize(Verdict& verdict, const RunReport& report, double left, double half) {
  const auto elements = static_cast<double>(report.elements);
  const auto gain = [&](double share) { return std::min(report.wait_s, share * report.wall_s); };
  verdict.gain_s = gain(1 - left);
  if (verdict.gain_s <= 0) return;
  // If almost no time remains, the next limit can't be known.
  if (verdict.gain_s < 0.95 * report.wall_s)
    verdict.rate_then = elements / (report.wall_s - verdict.gain_s);
  verdict.rate_half = elements / (report.wall_s - gain(1 - half));
}

std::string prize(const Verdict& verdict, const RunReport& report) {
  const double now = report.elements_per_second();
  std::string text;
  if (verdict.cause == "hand-over" && verdict.rate_then > 1.02 * now) {
    // The stage's own work also shrinks, if it is called once for many elements.
    return " Batched first, there would be " + rate_text(verdict.rate_then) +
           " and more instead of " + rate_text(now) + ".";
  }
  if (verdict.rate_half > 1.02 * now)
    text = " With half as much of it there would be " + rate_text(verdict.rate_half);
  if (verdict.rate_then > 1.02 * now)
    text += (text.empty() ? " There would be at most " : ", without it at most ") +
            rate_text(verdict.rate_then);
  return text.empty() ? text : text + " instead of " + rate_text(now) + ".";
}

double RunReport::stall_share() const noexcept {
  const double after = wall_s - first_batch_s;
  return after > 0 ? std::clamp((wait_s - first_batch_s) / after, 0.0, 1.0) : 0;
}

bool too_short(const RunReport& report) noexcept {
  return report.wall_s < kShort_s || report.elements < kFewElements;
}

Verdict verdict(const RunReport& report) {
  if (report.ending == Ending::failed) return {.text = "The run failed before its end."};
  if (report.ending == Ending::device_lost) return {.text = "A device was lost."};
  if (report.ending == Ending::no_progress)
    return {.text = "The run made no progress and was given up."};
  if (report.elements == 0) return {.text = "Nothing was delivered."};
  Verdict verdict;
  if (too_short(report)) {
    verdict.text = "The run was too short to tell what limits it: it takes " +
                   std::to_string(kFewElements) + " elements and " + human_seconds(kShort_s) + ".";
  } else {
    verdict = judge(local_part(report));
    verdict.text += crowding(verdict, report);
  }
  verdict.text += missing_workers(report);
  if (!report.undecoded.empty())
    verdict.text += " Only reads were measured: " + report.undecoded + " would decode the images.";
  return verdict;
}

}  // namespace penstock
