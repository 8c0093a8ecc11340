#include "towers/train/settled_stats.h"

#include <chrono>
#include <thread>

namespace penstock::towers {

FeedStats settled_stats(const Feed& feed, std::uint64_t before, int all) {
  FeedStats stats = feed.stats();
  const auto counted = [&] {
    std::uint64_t steps = 0;
    for (const TowerStats& tower : stats.towers) steps += tower.steps;
    const std::uint64_t made = stats.batches - before;  // by all processes
    return steps >= made * stats.towers.size() / static_cast<std::size_t>(all);
  };
  for (int tries = 0; tries < 2000 && !counted(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stats = feed.stats();
  }
  return stats;
}

}  // namespace penstock::towers
