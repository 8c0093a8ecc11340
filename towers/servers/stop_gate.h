// The number of batches that the towers of a process take before a stop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <penstock/internal/thread_annotations.h>

namespace penstock::towers {

/// A gate that stops all towers after the same number of batches. Towers that are fed in turn must
/// take as many batches each. Otherwise one would wait for another that has stopped. The feed's
/// position also fits all towers only then. So once one tower wants to stop, all continue up to the
/// largest number of batches that any has begun. Nothing waits here. Thread-safe.
class StopGate {
 public:
  explicit StopGate(int towers) : begun_(static_cast<std::size_t>(towers)) {}

  /// True if the tower may ask for one more batch. `stop` says that it would rather stop.
  bool pass(int tower, bool stop) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (stop && limit_ == UINT64_MAX) limit_ = *std::max_element(begun_.begin(), begun_.end());
    std::uint64_t& mine = begun_[static_cast<std::size_t>(tower)];
    if (mine >= limit_) return false;
    ++mine;
    return true;
  }

 private:
  Mutex mutex_;
  std::vector<std::uint64_t> begun_ GUARDED_BY(mutex_);  // batches that each tower has asked for
  std::uint64_t limit_ GUARDED_BY(mutex_) = UINT64_MAX;
};

}  // namespace penstock::towers
