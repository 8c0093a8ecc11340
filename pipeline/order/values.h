// Inputs of stages that look at what elements hold.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "pipeline/order/node.h"

namespace penstock {

/// The node's first input as values, in order.
OrderIteratorPtr open_values(const Node& node, const OpenContext& context);

/// An op that sets WorkItem::key. Throws Error{invalid_argument} for an empty callable.
WorkOpPtr make_key_op(KeyFn key, std::string name);
/// The node's first input as values whose key `op` has set, in parallel.
OrderIteratorPtr open_keyed(const Node& node, const OpenContext& context, const WorkOpPtr& op);

/// Values that a stage keeps for a while. A restored stage gets those again that it had kept: the
/// input is redone from the oldest of them, and the others behind it are dropped, so that a state
/// holds a number for each but no value. Used by one thread.
class HeldInput {
 public:
  explicit HeldInput(OrderIteratorPtr input) : input_(std::move(input)) {}

  /// The next item; false at the end, and then always.
  bool next(ElementRef& out);
  /// Keeps the item that `next` gave last; what to call `let_go` with.
  std::uint64_t hold();
  void let_go(std::uint64_t number);

  void save(StateWriter& state) const;
  /// Calls `keep` for each item that was kept, in the order of the input. It must hold it.
  void restore(StateReader& state, const std::function<void(ElementRef)>& keep);

 private:
  static constexpr std::size_t kAhead = 16;
  void forget();

  OrderIteratorPtr input_;
  std::vector<ElementRef> ahead_;  // pulled at once
  std::size_t used_ = 0;           // of those
  std::uint64_t next_ = 0;         // number of the next item
  bool ended_ = false;
  std::set<std::uint64_t> held_;
  std::map<std::uint64_t, std::string> states_;  // of the input in front of these numbers
};

/// A dataset of items that are values, as a window is. Their random numbers differ from window to
/// window.
NodePtr make_items(Spec spec, std::vector<ElementRef> items);
/// The same for finding out what a callable makes of a window: of unknown size, and empty.
NodePtr make_no_items(Spec spec);

}  // namespace penstock
