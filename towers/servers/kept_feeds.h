// Earlier positions of processes' inputs.
#pragma once

#include <span>
#include <vector>

#include "towers/servers/parameter_server.h"

namespace penstock::towers {

/// The positions that one process reported. A checkpoint needs one that is at or before the pushes
/// it contains. A few positions are enough, because a push counts at the latest when its update is
/// made. Not synchronised.
class KeptFeeds {
 public:
  /// `first` is always kept, so there is always a position to go back to.
  explicit KeptFeeds(KeptFeed first) : feeds_{std::move(first)} {}

  /// Throws Error{invalid_argument} if the position has another number of replicas.
  void add(const KeptFeed& feed);
  /// Returns the newest position at which no replica had made more pushes than these.
  const KeptFeed& at(std::span<const std::uint64_t> pushes) const;
  const KeptFeed& newest() const { return feeds_.back(); }

 private:
  std::vector<KeptFeed> feeds_;  // oldest first
};

}  // namespace penstock::towers
