// The open segments of a run.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <penstock/internal/thread_annotations.h>

namespace penstock {

class ParallelSegment;

/// The list of a run's open segments. Segments add themselves, and remove themselves before they
/// are destroyed. Thread-safe.
class SegmentList {
 public:
  void add(ParallelSegment& segment) EXCLUDES(mutex_);
  void remove(ParallelSegment& segment) noexcept EXCLUDES(mutex_);
  /// Returns the number of open segments.
  std::size_t size() const EXCLUDES(mutex_);
  /// Makes all threads that wait within a pull check whether they have to stop.
  void wake() noexcept EXCLUDES(mutex_);
  /// Counts the good elements of all segments in their error accounts.
  void settle() EXCLUDES(mutex_);
  /// If a consumer waits for a slot and there is none, returns how many its stage has made.
  std::optional<std::size_t> slots_where_one_lacks() const EXCLUDES(mutex_);
  /// Gives such a consumer an error. With `for_good`, its segment ends.
  void fail_slot(bool for_good) noexcept EXCLUDES(mutex_);

 private:
  mutable SlowMutex mutex_;  // held while a segment is used, so that it does not end meanwhile
  std::vector<ParallelSegment*> segments_ GUARDED_BY(mutex_);
};

}  // namespace penstock
