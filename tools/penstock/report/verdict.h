// What verdicts have in common.
#pragma once

#include <string>

#include "tools/penstock/report/report.h"

namespace penstock::tool {

/// A fused chain's name lists all of its ops.
std::string short_name(const StageStats& stage);
/// What would make a stage that computes faster.
std::string compute_help(const Report& report, const StageStats& stage);
/// What would make a source that waits for its reads faster.
std::string reading_help(const Report& report);

/// Batches that have room in the budget at once; at least 1. REQUIRES: `slot_bytes` is known.
int slots_that_fit(const Report& report);
/// "one batch slot fits in 40.0 MiB; four need 146.9 MiB: --memory 160MiB", or where enough fit, to
/// raise --memory.
std::string memory_help(const Report& report);

/// The share of its time in which a thread that could run had a CPU, where that is little, and the
/// process did not itself use all there are; else 1.
double cpu_share(const Report& report);
/// Why it was little, and what to do. REQUIRES: cpu_share(report) < 1.
Verdict starved_verdict(const Report& report);

/// What doing something about the cause would bring, as a sentence; empty if that is not known.
std::string prize(const Verdict& verdict, const Report& report);

}  // namespace penstock::tool
