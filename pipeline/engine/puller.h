// Pulls a segment's input and remembers its positions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "pipeline/core/ring.h"
#include "pipeline/engine/group.h"
#include "pipeline/order/node.h"

namespace penstock {

/// The input's positions before each of the last groups. They allow saving a position that is a
/// little behind: the consumer's. Not synchronised.
class Snapshots {
 public:
  /// With `free_order`, items come in another order when they are pulled again, so their ordinals
  /// identify them.
  explicit Snapshots(bool free_order) : free_order_(free_order) {}

  /// Adds a position of the input, after `sequence` items were handed over.
  void add(std::uint64_t sequence, std::string position);
  /// Adds items that follow the last snapshot.
  void note(std::span<const ElementRef> items);
  /// Drops snapshots that are no longer needed by a consumer with `consumed` items. Returns memory
  /// to reuse.
  std::string trim(std::uint64_t consumed);
  /// Saves the last snapshot at or before `consumed`, and how many items to skip from there.
  void save(StateWriter& state, std::uint64_t consumed) const;

 private:
  struct Snapshot {
    std::uint64_t sequence = 0;  // items handed over before
    std::string position;
    std::vector<std::uint64_t> ordinals;  // of the items since then, if their order is free
  };
  const bool free_order_;
  Ring<Snapshot> snapshots_;
};

/// The input of a segment. Used by the segment's thread, and by others only before that is started.
class Puller {
 public:
  /// `free_order` has the same meaning as for Snapshots.
  Puller(OrderIteratorPtr input, bool free_order)
      : input_(std::move(input)), free_order_(free_order) {}

  bool free_order() const noexcept { return free_order_; }
  /// Returns how many items were pulled so far, counted from the beginning of the epoch.
  std::uint64_t sequence() const noexcept { return sequence_; }
  /// Returns the input's position, written into the memory of `reused`.
  std::string position(std::string reused) const;
  /// Continues from a snapshot that Snapshots::save wrote, after `consumed` items.
  void restore(StateReader& state, std::uint64_t consumed);
  /// Puts up to `wanted` items into an empty group. It takes those that are available: if the input
  /// gives less than it was asked for, it is not asked again. No items means that the input has
  /// ended. An exception of the input becomes the group's last item.
  void pull(Group& group, std::size_t wanted);
  /// Skips `count` items. The input must have as many.
  void pass_over(std::size_t count);
  /// True if the input threw and must not be asked any more.
  bool threw() const noexcept { return threw_; }

 private:
  std::size_t drop_had(std::span<ElementRef> items);
  bool alike(const Group& group) const noexcept;

  const OrderIteratorPtr input_;
  const bool free_order_;
  std::uint64_t sequence_ = 0;
  bool threw_ = false;
  /// With a free order: items that the consumer received before the run was saved. They are dropped
  /// when they come again.
  std::unordered_multiset<std::uint64_t> had_;
};

}  // namespace penstock
