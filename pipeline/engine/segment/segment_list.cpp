#include "pipeline/engine/segment/segment_list.h"

#include <algorithm>

#include "pipeline/engine/segment/parallel_segment.h"

namespace penstock {

void SegmentList::add(ParallelSegment& segment) {
  MutexLock lock(mutex_);
  segments_.push_back(&segment);
}

void SegmentList::remove(ParallelSegment& segment) noexcept {
  MutexLock lock(mutex_);
  std::erase(segments_, &segment);
}

std::size_t SegmentList::size() const {
  MutexLock lock(mutex_);
  return segments_.size();
}

void SegmentList::wake() noexcept {
  MutexLock lock(mutex_);
  for (ParallelSegment* segment : segments_) segment->wake();
}

void SegmentList::settle() {
  MutexLock lock(mutex_);
  for (ParallelSegment* segment : segments_) segment->settle();
}

std::optional<std::size_t> SegmentList::slots_where_one_lacks() const {
  MutexLock lock(mutex_);
  for (const ParallelSegment* segment : segments_)
    if (const SlotPool* const slots = segment->lacks_slot()) return slots->made();
  return std::nullopt;
}

void SegmentList::fail_slot(bool for_good) noexcept {
  MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(
      segments_, [](const ParallelSegment* segment) { return segment->lacks_slot() != nullptr; });
  if (found != segments_.end()) (*found)->fail_slot(for_good);
}

}  // namespace penstock
