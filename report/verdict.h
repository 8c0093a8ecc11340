// Parts that several verdicts share.
#pragma once

#include <optional>
#include <string>

#include "report/run_report.h"

namespace penstock {

/// Returns the verdict on a run with towers, from the towers' gains.
Verdict towers_verdict(const RunReport& report);

/// The names of the settings in remedies: flags of `penstock profile`, or fields.
struct Knobs {
  const char* threads;
  const char* io_threads;
  const char* memory;
  const char* slots;
  const char* device_slots;  ///< includes the text in front of its number
  const char* out_of_turn;
  const char* wire;
  const char* connections;
  const char* cache;
};
const Knobs& knobs(const RunReport& report) noexcept;

/// Returns a short name for a stage. The full name of a fused chain lists all of its ops.
std::string short_name(const StageStats& stage);
/// Says how to make a stage that computes faster.
std::string compute_help(const RunReport& report, const StageStats& stage);
/// Says how to make a source that waits for its reads faster.
std::string reading_help(const RunReport& report);
/// Says how to make a source that waits for servers faster. REQUIRES: `report.remote`.
std::string servers_help(const RunReport& report);
/// Says how to make a map that waits faster.
std::string waiting_help(const RunReport& report);

/// Returns the number of batches that fit into the budget at once; at least 1. REQUIRES:
/// `slot_bytes` is known.
int slots_that_fit(const RunReport& report);
/// Returns text such as "one batch slot fits in 40.0 MiB; four need 146.9 MiB: --memory 160MiB". If
/// enough batches fit, it says to raise the budget.
std::string memory_help(const RunReport& report);

/// Returns the share of their time in which threads that could run had a CPU. Returns 1 if that
/// share is not small, or if no others had the CPUs.
double cpu_share(const RunReport& report);
/// Says why that share is small, and what to do. REQUIRES: cpu_share(report) < 1.
Verdict starved_verdict(const RunReport& report);
/// Returns a sentence about threads that take CPUs from each other; empty if they do not.
std::string crowding(const Verdict& verdict, const RunReport& report);

/// Returns the number of input workers that would end the consumer's wait. These are the connected
/// ones, times the factor by which the consumer would be faster without waiting. 0 without workers.
double workers_wanted(const RunReport& report);
/// Returns the share of the groups that this process made; 1 without workers.
double made_here(const Stats& stats) noexcept;
/// Returns the same report with the stages' busy time in this process alone. `Stats` includes the
/// work of input workers.
RunReport local_part(const RunReport& report);
/// If a run that waits is limited by its workers or the way to them, returns a verdict that says
/// so.
std::optional<Verdict> workers_verdict(const RunReport& report);
/// Returns the verdict on a run that is limited neither by its workers or the way to them, nor by
/// this process. REQUIRES: workers made some groups.
Verdict idle_workers_verdict(const RunReport& report, const std::string& remedy);
/// Returns a sentence about workers that the run should have; empty if it has all of them.
std::string missing_workers(const RunReport& report);

/// Sets the gain if only the share `left` of the input's time remains, or `half` with half of a
/// cause.
void set_prize(Verdict& verdict, const RunReport& report, double left, double half);
/// Returns a sentence about the gain of removing the cause; empty if the gain is not known.
std::string prize(const Verdict& verdict, const RunReport& report);

}  // namespace penstock
