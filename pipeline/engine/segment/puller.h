// Pulls a segment's input and remembers its positions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "pipeline/core/ring.h"
#include "pipeline/engine/make/group.h"
#include "pipeline/stage/order_iterator.h"

namespace penstock {

/// The input's positions before each of the last groups. They allow saving a position that is a
/// little behind: the consumer's. Not synchronised.
class Snapshots {
 public:
  /// With `free_order`, items come in another order when they are pulled again, so their ordinals
  /// identify them. With `exact`, a snapshot counts once an item behind it is consumed: before that
  /// it may not have been taken yet.
  Snapshots(bool free_order, bool exact) : free_order_(free_order), exact_(exact) {}

  /// Adds a position of the input, after `sequence` items were handed over.
  void add(std::uint64_t sequence, std::string position);
  /// Adds items that follow the last snapshot.
  void note(std::span<const ElementRef> items);
  /// Drops snapshots that are no longer needed by a consumer with `consumed` items. Returns memory
  /// to reuse.
  std::string trim(std::uint64_t consumed);
  bool empty() const noexcept { return snapshots_.empty(); }
  /// Saves the last snapshot that counts at `consumed`, and how many items to skip from there.
  void save(StateWriter& state, std::uint64_t consumed) const;

 private:
  struct Snapshot {
    std::uint64_t sequence = 0;  // items handed over before
    std::string position;
    std::vector<std::uint64_t> ordinals;  // of the items since then, if their order is free
  };
  bool counts(std::size_t snapshot, std::uint64_t consumed) const {
    return snapshot < snapshots_.size() &&
           snapshots_[snapshot].sequence + (exact_ ? 1 : 0) <= consumed;
  }
  bool free_order_, exact_;
  Ring<Snapshot> snapshots_;
};

/// The input of a segment. Used by the segment's thread, and by others only before that is started.
class Puller {
 public:
  /// `free_order` has the same meaning as for Snapshots. With `exact`, the input is asked for one
  /// item at a time, so that what it holds at a position does not depend on the sizes of groups.
  Puller(OrderIteratorPtr input, bool free_order, bool exact)
      : input_(std::move(input)), free_order_(free_order), exact_(exact) {}

  bool free_order() const noexcept { return free_order_; }
  /// Returns how many items were pulled so far, counted from the beginning of the epoch.
  std::uint64_t sequence() const noexcept { return sequence_; }
  /// Returns the input's position, written into the memory of `reused`.
  std::string position(std::string reused) const;
  /// Continues from a snapshot that Snapshots::save wrote, after `consumed` items. Adds it to
  /// `kept`, unless that is null.
  void restore(StateReader& state, std::uint64_t consumed, Snapshots* kept);
  /// Puts up to `wanted` items into an empty group. It takes those that are available: if the input
  /// gives less than it was asked for, it is not asked again. No items means that the input has
  /// ended. An exception of the input becomes the group's last item.
  void pull(Group& group, std::size_t wanted);
  /// Skips `count` items. The input must have as many.
  void skip(std::size_t count);
  /// True if the input threw and must not be asked any more.
  bool threw() const noexcept { return threw_; }

 private:
  std::size_t drop_had(std::span<ElementRef> items);
  bool alike(const Group& group) const noexcept;

  void discard(std::size_t count);

  const OrderIteratorPtr input_;
  const bool free_order_, exact_;
  std::uint64_t sequence_ = 0;
  bool threw_ = false;
  /// With a free order: items that the consumer received before the run was saved. They are dropped
  /// when they come again.
  std::unordered_multiset<std::uint64_t> had_;
};

}  // namespace penstock
