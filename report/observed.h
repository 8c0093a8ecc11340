// Reports on runs, from their statistics.
#pragma once

#include <penstock/feed.h>
#include <penstock/stats.h>

#include "report/run_report.h"

namespace penstock {

/// Returns a report with the facts about the process that are known before anything runs in it.
RunReport process_report();
/// Counts all requests of this process to servers of data. Returns nothing if there were none.
std::optional<RemoteStats> asked_of_servers() noexcept;
/// Returns the shard that this process reads much more slowly than others; nothing if there is none
/// or none is known.
std::optional<SlowShard> slow_shard_of_process();
/// Reports on the run of an iterator or a feed up to now.
RunReport observed(Stats stats);
RunReport observed(FeedStats stats);

}  // namespace penstock
