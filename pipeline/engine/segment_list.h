// The segments of a run that are open.
#pragma once

#include <cstddef>
#include <vector>

#include "pipeline/core/thread_annotations.h"

namespace penstock {

class ParallelSegment;

/// Thread-safe. Segments add themselves, and take themselves away before they go.
class SegmentList {
 public:
  void add(ParallelSegment& segment) EXCLUDES(mutex_);
  void remove(ParallelSegment& segment) noexcept EXCLUDES(mutex_);
  /// How many are open.
  std::size_t size() const EXCLUDES(mutex_);
  /// Makes all who wait within a pull look whether they are to stop.
  void wake() noexcept EXCLUDES(mutex_);
  /// Gives up one result that was made ahead of its time. False if there is none.
  bool evict() EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::vector<ParallelSegment*> segments_ GUARDED_BY(mutex_);
};

}  // namespace penstock
