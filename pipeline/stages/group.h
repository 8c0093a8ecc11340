// Gathering values into groups that become one element each.
#pragma once

#include "pipeline/stage/held_values.h"
#include "pipeline/stage/node.h"

namespace penstock {

/// An iterator that takes `size` values at a time and makes one item of them for a GatherOp. A
/// failed value ends its group: the group is lost, and the error takes its place.
class GroupIterator final : public OrderIterator {
 public:
  GroupIterator(const Node& node, const OpenContext& context, std::size_t size,
                bool drop_remainder);

  std::size_t pull(std::span<ElementRef> out) override;
  void save(StateWriter& state) const override { values_->save(state); }
  void restore(StateReader& state) override { values_->restore(state); }

 private:
  OrderIteratorPtr values_;
  HeldValues held_;
  std::size_t size_;
  bool drop_remainder_;
  ProgramPtr program_;
};

/// Returns component `component` of all elements as a vector of byte strings that shares their
/// memory. Its shape is [elements.size()].
Tensor share_bytes(std::span<const Element* const> elements, std::size_t component);

}  // namespace penstock
