// The contract of results, which collect values that are made in parallel: batches or single
// values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <penstock/state.h>

#include "pipeline/engine/make/group.h"
#include "pipeline/engine/memory/slots.h"

namespace penstock {

/// An element that takes a hundred times as long as others holds up no thread: for each group that
/// may be under way, so many elements behind it may be made.
constexpr std::size_t kBehindSlow = 100;

/// A segment's demand for room in its results.
struct Demand {
  std::size_t wanted = 0;       ///< elements for the next group, at most
  std::size_t group_limit = 0;  ///< groups that may be under way or wait to be taken
  bool crowded = false;         ///< enough groups are under way
  bool consumer_waits = false;
  bool alone = false;         ///< one element at a time, when the consumer waits for it
  bool reads_lag = false;     ///< slow reads leave threads without work
  bool threads_idle = false;  ///< they wait for groups, and not for reads
  bool roomy = true;          ///< half of the memory is free
};

/// The results of a segment, in their order. Each group is admitted in order, and completed
/// whenever it has been made. A state machine: it has no threads and never waits. Not synchronised.
class Results {
 public:
  virtual ~Results() = default;

  /// Returns the layout of the batches that results are written into. If null, they stay in their
  /// group.
  virtual const SlotLayout* layout() const noexcept { return nullptr; }
  /// Returns how many elements may be handed over now; 0: none for now. If they are to be skipped,
  /// more may be than are wanted.
  virtual std::size_t room(const Demand& demand) = 0;
  /// Returns the pool in which `room` has just claimed a slot, or null. The caller makes the slot
  /// without its mutex, adds it here, and calls `room` again.
  virtual SlotPool* claimed() { return nullptr; }
  virtual void add_slot(Ref<Slot> /*slot*/) {}
  /// True if the elements for which `room` found room are to be skipped, not made.
  virtual bool skips_next() { return false; }
  /// Records that `count` elements from `first` on were skipped. REQUIRES: skips_next(), and
  /// `room` returned at least `count`.
  virtual void skip(std::uint64_t /*first*/, std::size_t /*count*/) {}
  /// Records a group that is about to be executed. REQUIRES: it has no more elements than `room`
  /// returned, and groups come in order.
  virtual void admit(Group& group) = 0;
  /// Records that all results or errors of the group are there. Returns the group to its pool, or
  /// keeps it until the results were taken. REQUIRES: it has let go of its items if the results are
  /// in a batch.
  virtual void complete(Group& group) = 0;
  /// True if a result waits to be taken.
  virtual bool has_output() const = 0;
  /// True if nothing can be taken before the oldest element is there, so that `room` may make more.
  virtual bool waits_for_head() const { return false; }
  /// True if no result can be taken before this group is done.
  virtual bool is_first(const Group& group) const = 0;
  /// States that no more groups will be admitted.
  virtual void end() = 0;
  /// Returns slots that are no longer needed, linked to each other; null: there are none. They are
  /// released without the segment's mutex.
  virtual Ref<Slot> dropped() noexcept { return {}; }
  /// Moves the results that the consumer may have to the front of `out`. Returns how many.
  virtual std::size_t take(std::span<ElementRef> out) = 0;
  /// Returns the groups whose results were taken, linked by Group::next; null: there are none. They
  /// let go without the mutex, so that no group takes their room before they have; then `reuse`
  /// gets them.
  Group* spent() noexcept { return std::exchange(spent_, nullptr); }
  /// Returns a spent group to the pool. REQUIRES: it has let go.
  virtual void reuse(Group& group) noexcept { groups_.give(group); }
  /// True once no more results will come.
  virtual bool drained() const = 0;
  /// Returns the pool of which a waiting consumer needs another slot, although it has none; null:
  /// it needs none.
  virtual const SlotPool* lacks_slot() const { return nullptr; }
  /// Returns the error that there will be no such slot. REQUIRES: lacks_slot().
  virtual Status no_slot() const { return {}; }
  /// Reports the good elements after the last bad one to the error account.
  virtual void settle() = 0;

  /// Return how many items' results were taken, and how many bad items there were before them.
  virtual std::uint64_t consumed() const noexcept = 0;
  virtual std::uint64_t skipped() const noexcept = 0;
  /// Save the rest of the position, and return to it.
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(StateReader& state, std::uint64_t consumed, std::uint64_t skipped) = 0;

  GroupPool& groups() noexcept { return groups_; }

 protected:
  void put_spent(Group& group) noexcept { group.next = std::exchange(spent_, &group); }

 private:
  GroupPool groups_;
  Group* spent_ = nullptr;
};

}  // namespace penstock
