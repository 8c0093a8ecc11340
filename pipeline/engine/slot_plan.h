// How many slots the batch stages of a run have.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <penstock/iterator.h>
#include <penstock/plan.h>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/engine/slots.h"

namespace penstock {

/// The pools of slots of a run's batch stages, and how large they may be. Thread-safe.
class SlotPlan {
 public:
  /// All of these outlive it, but for what is shared.
  SlotPlan(const Plan& plan, const RunOptions& options, std::shared_ptr<Memory> memory,
           std::shared_ptr<Waker> waker);
  /// Slots that a batch stage has at first, of so many bytes each, texts included.
  std::size_t usual(const Node& node, std::uint64_t slot_bytes) const;
  /// Slots that a stage may have where reads keep everybody waiting; as many as ever if the caller
  /// said how many.
  std::size_t most(const Node& node, std::uint64_t slot_bytes) const;
  /// The pool of this place of a batch stage: one that is used twice is open twice at once.
  std::shared_ptr<SlotPool> pool(const Node& node, std::uint64_t path) EXCLUDES(mutex_);
  /// Lets go of the slots that nobody uses.
  void drop_free() noexcept EXCLUDES(mutex_);

 private:
  SlotLayout layout_for(const Node& node) const;

  const Plan& plan_;
  const RunOptions& options_;
  const std::shared_ptr<Memory> memory_;
  const std::shared_ptr<Waker> waker_;
  std::size_t places_ = 0;  // of batch stages
  Mutex mutex_;
  std::map<std::pair<const Node*, std::uint64_t>, std::shared_ptr<SlotPool>> pools_
      GUARDED_BY(mutex_);
};

}  // namespace penstock
