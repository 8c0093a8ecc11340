// Makes elements one at a time where what was made ahead leaves no room for them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pipeline/core/setbacks.h"
#include "pipeline/core/waker.h"
#include "pipeline/engine/errors/skip_ledger.h"
#include "pipeline/engine/memory/memory.h"
#include "pipeline/engine/plan/slot_plan.h"
#include "pipeline/engine/run/activity.h"
#include "pipeline/engine/run/run_state.h"
#include "pipeline/engine/segment/segment_list.h"

namespace penstock {

/// If what was made ahead leaves the oldest element no room, the consumer takes everything down. It
/// then opens the epoch again at its position, and each segment makes one element at a time, when
/// it is asked for one. So nothing but the stages' own state and one slot of each batch stage lies
/// beside the element, whatever the threads did before. From then on each segment makes half as
/// many groups ahead. After a while it tries twice as many. That while doubles with each halving.
/// Thread-safe.
class StepBack {
 public:
  /// The parts of the run that it uses.
  struct Services {
    const RunState& state;
    Memory& memory;
    Activity& activity;
    Waker& waker;
    SegmentList& segments;
    SlotPlan& slots;
    SkipLedger& ledger;
  };
  /// `alone`: each segment makes one element at a time from the beginning.
  StepBack(const Services& services, bool alone) : run_(services), alone_(alone ? UINT64_MAX : 0) {}
  /// States whether the consumer can save its position and resume from there. While a saved run is
  /// restored it cannot: it has no position yet. Nor can it behind the error that ends the run.
  void allow(bool yes) noexcept { allowed_.store(yes, std::memory_order_seq_cst); }
  /// Called for an element that finds no room, without a lock. Asks the consumer to step back.
  /// Returns false if the element has to fail: it is alone already, or the consumer cannot.
  bool ask() noexcept;
  /// True if `ask` was called since the last step. A run that was being restored then has to step
  /// back: it checks this after it has called `allow`.
  bool asked() const noexcept { return asked_.load(std::memory_order_seq_cst); }
  /// True if the calling thread is the consumer's own and has to step back.
  bool wanted() const noexcept;
  /// True if a run that makes one element at a time might have failed by now. Then the consumer has
  /// to step back, to find out.
  bool must_find_out() noexcept;
  /// The consumer steps back now and has taken everything down. Forgets the errors of this epoch,
  /// as they will be counted again.
  void done() noexcept;

  /// Returns how many of so many groups may be under way, at least 1.
  std::size_t narrowed(std::size_t groups) const noexcept {
    return std::max<std::size_t>(groups >> halvings_.load(std::memory_order_relaxed), 1);
  }
  /// True while elements are made one at a time.
  bool alone() const noexcept { return alone_.load(std::memory_order_acquire) > 0; }
  /// The consumer received an element. After a step, elements are made alone until as many were
  /// received as Setbacks says.
  void received() noexcept;

 private:
  const Services run_;
  std::atomic<bool> allowed_{false};
  std::atomic<bool> wanted_{false};
  std::atomic<bool> asked_{false};
  std::atomic<std::uint64_t> alone_;  // elements to be received until more are made at once
  std::atomic<int> halvings_{0};      // of the groups ahead
  // Used by the consumer:
  Setbacks setbacks_;
  std::uint64_t patience_ = 512;  // elements to be received until one halving is tried without
  std::uint64_t passed_ = 0;      // since the last change of the halvings
};

}  // namespace penstock
