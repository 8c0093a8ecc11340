// Values gathered into groups that become one element.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Takes `size` values at a time and makes one item of them for a GatherOp. A value that failed
/// ends its group: the group is lost, the error stands in its place.
class GroupIterator final : public OrderIterator {
 public:
  GroupIterator(OrderIteratorPtr values, std::size_t size, bool drop_remainder, ProgramPtr program)
      : values_(std::move(values)),
        size_(size),
        drop_remainder_(drop_remainder),
        program_(std::move(program)) {}

  std::size_t pull(std::span<ElementRef> out) override;
  void save(StateWriter& state) const override { values_->save(state); }
  void restore(StateReader& state) override { values_->restore(state); }

 private:
  OrderIteratorPtr values_;
  std::size_t size_;
  bool drop_remainder_;
  ProgramPtr program_;
};

/// Opens `node`'s input as values and groups them for `op`.
OrderIteratorPtr open_grouped(const Node& node, const OpenContext& context, std::size_t size,
                              bool drop_remainder, const std::shared_ptr<const GatherOp>& op);

/// A vector of byte strings that shares their memory. Shape [values.size()].
Tensor share_bytes(std::span<const WorkItem> items, std::size_t component);

}  // namespace penstock
