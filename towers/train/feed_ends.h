// The progress of some of a feed's towers.
#pragma once

#include <algorithm>
#include <cstdint>

#include <penstock/feed.h>

namespace penstock::towers {

/// Returns the number of epochs that all of these `count` towers, from `first` on, have finished.
inline std::uint64_t epochs_ended(const Feed& feed, int first, int count) {
  std::uint64_t least = UINT64_MAX;
  for (int t = first; t < first + count; ++t) least = std::min(least, feed.epochs(t));
  return least;
}

/// True if none of these towers has anything left to do.
inline bool ended(const Feed& feed, int first, int count) {
  for (int t = first; t < first + count; ++t)
    if (!feed.ended(t)) return false;
  return true;
}

}  // namespace penstock::towers
