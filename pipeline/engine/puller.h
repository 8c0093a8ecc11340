// Pulls what a segment makes values of, and remembers where it stood.
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

/// Where the input stood before each of the last groups, so that a position a little behind can be
/// saved: that of the consumer. Not synchronised.
class Snapshots {
 public:
  /// `free_order`: items come in another order when they are pulled again, and are told by their
  /// ordinals.
  explicit Snapshots(bool free_order) : free_order_(free_order) {}

  /// `sequence` items were handed over until now.
  void add(std::uint64_t sequence, std::string position);
  /// These follow the last snapshot.
  void note(std::span<const ElementRef> items);
  /// Lets go of those that a consumer who has had so many items is past. Returns memory to reuse.
  std::string trim(std::uint64_t consumed);
  /// The snapshot at or before `consumed`, and how many items to pass over from there.
  void save(StateWriter& state, std::uint64_t consumed) const;

 private:
  struct Snapshot {
    std::uint64_t sequence = 0;  // items handed over before
    std::string position;
    std::vector<std::uint64_t> ordinals;  // of the items since, if their order is free
  };
  const bool free_order_;
  Ring<Snapshot> snapshots_;
};

/// The input of a segment. Used by the segment's thread, and before there is one.
class Puller {
 public:
  /// `free_order` as for Snapshots.
  Puller(OrderIteratorPtr input, bool free_order)
      : input_(std::move(input)), free_order_(free_order) {}

  bool free_order() const noexcept { return free_order_; }
  /// Items pulled so far, from the beginning of the epoch on.
  std::uint64_t sequence() const noexcept { return sequence_; }
  /// Where the input stands, written into the memory of `reused`.
  std::string position(std::string reused) const;
  /// Goes on from what Snapshots::save wrote, behind `consumed` items.
  void restore(StateReader& state, std::uint64_t consumed);
  /// Puts up to `wanted` items into an empty group: what is there, since an input that gives less
  /// than it was asked for is not asked again. None: the input has ended. What it throws becomes
  /// the group's last item.
  void pull(Group& group, std::size_t wanted);
  /// True if it threw, and is not to be asked any more.
  bool threw() const noexcept { return threw_; }

 private:
  std::size_t drop_had(std::span<ElementRef> items);
  bool alike(const Group& group) const noexcept;

  const OrderIteratorPtr input_;
  const bool free_order_;
  std::uint64_t sequence_ = 0;
  bool threw_ = false;
  /// With a free order: items that the consumer had before the run was saved. They are dropped when
  /// they come again.
  std::unordered_multiset<std::uint64_t> had_;
};

}  // namespace penstock
