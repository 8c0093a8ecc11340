// Decides how many slots the batch stages of a run have.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <penstock/internal/thread_annotations.h>
#include <penstock/iterator.h>
#include <penstock/plan.h>

#include "pipeline/engine/memory/slots.h"
#include "pipeline/stage/node.h"

namespace penstock {

/// The slot pools of a run's batch stages, and their sizes. Thread-safe.
class SlotPlan {
 public:
  /// `plan` and `options` must outlive this object.
  SlotPlan(const Plan& plan, const RunOptions& options, std::shared_ptr<Memory> memory,
           std::shared_ptr<Waker> waker);
  /// Returns how many slots a batch stage has at first. Each takes `slot_bytes`, including texts.
  std::size_t usual(const Node& node, std::uint64_t slot_bytes) const;
  /// Returns the most slots that a stage may get when slow reads leave threads without work. If the
  /// caller has set the number, this is the number that the stage has at first.
  std::size_t most(const Node& node, std::uint64_t slot_bytes) const;
  /// Returns the pool for this place of a batch stage. A stage that is used twice is open twice at
  /// the same time.
  std::shared_ptr<SlotPool> pool(const Node& node, std::uint64_t path) EXCLUDES(mutex_);
  /// Frees slots that are not in use, but leaves each stage `left`. Returns false if it frees none.
  bool drop_free(std::size_t left) noexcept EXCLUDES(mutex_);

 private:
  SlotLayout layout_for(const Node& node) const;

  const Plan& plan_;
  const RunOptions& options_;
  const std::shared_ptr<Memory> memory_;
  const std::shared_ptr<Waker> waker_;
  std::size_t places_ = 0;  // places of batch stages
  Mutex mutex_;
  std::map<std::pair<const Node*, std::uint64_t>, std::shared_ptr<SlotPool>> pools_
      GUARDED_BY(mutex_);
};

}  // namespace penstock
