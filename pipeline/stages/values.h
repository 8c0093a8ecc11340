// Inputs of stages that look at the contents of elements.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "pipeline/stage/held_values.h"
#include "pipeline/stage/run_services.h"

namespace penstock {

/// Opens the node's first input as values, in order.
OrderIteratorPtr open_values(const Node& node, const OpenContext& context);

/// Returns an op that sets WorkItem::key. Throws Error{invalid_argument} for an empty callable.
WorkOpPtr make_key_op(KeyFn key, std::string name);
/// Returns the step of a node that gets its elements' keys from `op`. `leaves` is false if the node
/// makes other elements of them.
Program::Step key_step(const Node& node, RunServices& run, const WorkOpPtr& op, bool leaves);
/// Opens the node's first input as values with keys, which the node's step sets in parallel.
OrderIteratorPtr open_keyed(const Node& node, const OpenContext& context);

/// An input whose values a stage may keep for a while. A restored stage gets back the values that
/// it had kept: the input is replayed from the oldest of them, and values that were not kept are
/// dropped. So a state holds a number for each kept value, but no values. Used by one thread.
class HeldInput {
 public:
  /// The node is the one that keeps the values. REQUIRES: the items of `input` are values.
  HeldInput(OrderIteratorPtr input, const Node& node, const OpenContext& context)
      : input_(std::move(input)), values_(node, context) {}

  /// Gets the next item. Returns false at the end, and then always.
  bool next(ElementRef& out);
  /// Keeps the item, which `next` gave last. Returns its number, for `let_go`. Throws
  /// Error{resource_exhausted} if the budget has no room for so many; the run ends then.
  std::uint64_t hold(const ElementRef& item);
  void let_go(std::uint64_t number);

  void save(StateWriter& state) const;
  /// Calls `keep` for each kept item, in the order of the input. `keep` must store the item.
  void restore(StateReader& state, const std::function<void(ElementRef)>& keep);

 private:
  static constexpr std::size_t kAhead = 16;
  using States = std::map<std::uint64_t, std::string>;
  void forget(States::iterator state, std::uint64_t end);

  OrderIteratorPtr input_;
  HeldValues values_;
  std::vector<ElementRef> ahead_;  // pulled together
  std::size_t used_ = 0;           // how many of those were used
  std::uint64_t next_ = 0;         // number of the next item
  bool ended_ = false;
  std::set<std::uint64_t> held_;
  States states_;  // of the input before these numbers
};

/// Returns a dataset of items that are values, such as a window. The random numbers differ from
/// window to window.
NodePtr make_items(Spec spec, std::vector<ElementRef> items);
/// Returns an empty dataset of unknown size with the same spec. It serves to find out what a
/// callable makes of a window.
NodePtr make_no_items(Spec spec);

}  // namespace penstock
