// Gathering elements into several groups at a time.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "pipeline/stages/values.h"

namespace penstock {

/// Elements that will become one element.
struct Gathered {
  /// The group's key. Its gather op gets it as the item's index.
  std::int64_t key = 0;
  std::vector<ElementRef> items;
  std::vector<std::uint64_t> numbers;  ///< numbers of the items in HeldInput
};

/// The rule that decides which elements form a group. The decision must depend only on the elements
/// that are still held, on their order and on what `save` saves: a restored run adds them again.
/// Used by one thread.
class Grouping {
 public:
  virtual ~Grouping() = default;
  /// Puts `item`, which has a key, into a group. Complete groups go to `done`. A status that is not
  /// ok says why no group takes the item.
  virtual Status add(const ElementRef& item, std::uint64_t number, std::deque<Gathered>& done) = 0;
  /// Moves the groups that are left to `done`, at the end of the input.
  virtual void finish(std::deque<Gathered>& done) = 0;
  /// Notes that a group with this key has left `done`.
  virtual void gave(std::int64_t /*key*/) {}
  /// Save and restore what the held elements do not tell. A restored run adds them afterwards.
  virtual void save(StateWriter& /*state*/) const {}
  virtual void restore(StateReader& /*state*/) {}
};

/// An iterator over items that `program` makes of groups. An element that failed, or that no group
/// takes, becomes an error where it would have been added. The groups lose nothing.
class GroupingIterator final : public OrderIterator {
 public:
  /// Opens the node's input.
  GroupingIterator(const Node& node, const OpenContext& context, std::unique_ptr<Grouping> grouping,
                   ProgramPtr program);

  std::size_t pull(std::span<ElementRef> out) override;
  void save(StateWriter& state) const override;
  void restore(StateReader& state) override;

 private:
  ElementRef emit();

  HeldInput input_;
  std::unique_ptr<Grouping> grouping_;
  ProgramPtr program_;
  std::string stage_;
  std::deque<Gathered> done_;
  bool ended_ = false;
};

}  // namespace penstock
