// What kept threads from a CPU.
#include <algorithm>
#include <string>

#include "report/format.h"
#include "report/pace.h"
#include "report/verdict.h"

namespace penstock {
namespace {

double share_of_cpu(const CpuTimes& times) {
  return times.ran_s / (times.ran_s + times.waited_s);
}

/// Returns the share of the run that remains if no computing thread waits for a CPU. Other threads
/// may have waited, too. So the share is at least that of the time in which all threads had a CPU,
/// and at least the computing time.
double left_with_a_cpu(const RunReport& report) {
  const Pace pace = pace_of(report.stats);
  const double threads = std::max(1, report.stats.threads);
  const double waited_s = std::min(pace.computing, report.starved.waited_s / threads);
  const double saved_s = pace.works() - std::max(pace.apart, pace.computing - waited_s);
  const double left = 1 - saved_s / std::max(report.wall_s, pace.works());
  const double computed = report.starved.ran_s / (threads * report.wall_s);
  return std::max({left, share_of_cpu(report.starved), std::min(1.0, computed)});
}

/// True if others took CPUs that the process's threads waited for. Otherwise these threads took
/// them from each other.
bool others_had_it(const RunReport& report) {
  constexpr double kMuch = 0.1;
  return report.starved.others_s > kMuch * report.wall_s * report.cpus ||
         report.starved.throttled_s > kMuch * report.wall_s;
}

constexpr double kEnough = 0.75;  // of the time in which a thread could run

}  // namespace

double cpu_share(const RunReport& report) {
  const CpuTimes& times = report.starved;
  const double could = times.ran_s + times.waited_s;
  if (could <= 0 || times.ran_s >= kEnough * could) return 1;
  // Threads that rarely want a CPU do not lack one, nor do those whose input waits for something
  // else.
  if (times.waited_s < 0.1 * report.wall_s || left_with_a_cpu(report) > kEnough) return 1;
  return others_had_it(report) ? share_of_cpu(times) : 1;
}

Verdict starved_verdict(const RunReport& report) {
  const CpuTimes& times = report.starved;
  Verdict verdict{.cause = "cpu"};
  const bool quota = times.throttled_s > 0.1 * report.wall_s;
  const double left = left_with_a_cpu(report);
  set_prize(verdict, report, left, (1 + left) / 2);
  verdict.remedy = quota ? "a larger quota" : "a quieter machine, or fewer processes beside it";
  verdict.text = "Too little CPU limits the run: the threads had one for " +
                 human_share(cpu_share(report)) + " of the time in which they could have run; ";
  if (quota) {
    verdict.text += "a quota stopped them for " + human_seconds(times.throttled_s);
  } else {
    verdict.text += "other processes had " +
                    human_share(std::min(1.0, times.others_s / (report.wall_s * report.cpus))) +
                    " of the CPUs' time";
  }
  verdict.text += "; " + verdict.remedy + " would help.";
  return verdict;
}

std::string crowding(const Verdict& verdict, const RunReport& report) {
  const CpuTimes& times = report.starved;
  const double could = times.ran_s + times.waited_s;
  const bool computes = verdict.cause == "source" || verdict.cause.starts_with("stage ");
  if (!computes || could <= 0 || times.ran_s >= kEnough * could || others_had_it(report)) return "";
  if (times.waited_s < 0.1 * report.wall_s) return "";
  const std::string share = human_share(times.waited_s / could);
  if (report.stats.threads <= report.cpus)
    return " Its threads waited for a CPU in " + share +
           " of the time in which they could have run.";
  return " There are more threads than CPUs: they waited for each other in " + share +
         " of the time in which they could have run.";
}

}  // namespace penstock
