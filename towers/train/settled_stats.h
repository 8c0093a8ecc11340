// A feed's statistics after all steps were counted.
#pragma once

#include <cstdint>

#include <penstock/feed.h>

namespace penstock::towers {

/// Returns the statistics of the feed. Each step is counted by its tower's reaper, which may lag
/// behind the tower; this function waits for it, but not for long. `before` is the number of
/// batches of earlier runs. `all` is the number of towers of the whole feed, of which this process
/// may hold only some.
FeedStats settled_stats(const Feed& feed, std::uint64_t before, int all);

}  // namespace penstock::towers
