// Makes the segments of a run.
#pragma once

#include <cstddef>
#include <memory>

#include "pipeline/engine/errors/error_account.h"
#include "pipeline/engine/errors/retry.h"
#include "pipeline/engine/plan/slot_plan.h"
#include "pipeline/engine/run/remote_work.h"
#include "pipeline/engine/segment/parallel_segment.h"
#include "pipeline/engine/segment/results.h"
#include "pipeline/engine/segment/segment_owner.h"
#include "pipeline/stage/node.h"
#include "pipeline/stage/open_context.h"

namespace penstock {

/// Joins what a segment consists of: results of its kind, and a runner that makes its groups.
/// Thread-safe.
class SegmentFactory {
 public:
  /// The parts of the run that segments, their results and their runners use.
  struct Services : ParallelSegment::Services {
    SlotPlan& slots;
    Retry& retry;
    const std::unique_ptr<RemoteWork>& remote;  ///< null: no other processes work for the run
  };
  explicit SegmentFactory(const Services& services) : run_(services) {}

  /// Returns a segment, or what does its work where the context is nested.
  OrderIteratorPtr values(const SegmentOwner& owner, OrderIteratorPtr input,
                          const OpenContext& context, bool ordered);
  /// `stage` is the number of `owner` in the plan.
  OrderIteratorPtr batches(const SegmentOwner& owner, std::size_t stage, OrderIteratorPtr input,
                           const OpenContext& context, bool drop_remainder);
  /// Makes the item's value on this thread. Returns it, or the error in its place.
  ElementRef made(const ElementRef& item, const OpenContext& context);

 private:
  OrderIteratorPtr segment(const SegmentOwner& owner, OrderIteratorPtr input,
                           const OpenContext& context, std::unique_ptr<Results> results,
                           std::size_t group_limit);
  std::unique_ptr<GroupRunner> runner(const SegmentWork& work, GroupListener& listener);
  GroupContext::Services making() const;
  ErrorAccount account_of(const SegmentOwner& owner, const OpenContext& context) const;

  const Services run_;
};

}  // namespace penstock
