// Elements that are gathered in several groups at a time.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "pipeline/order/values.h"

namespace penstock {

/// Elements that will become one.
struct Gathered {
  std::int64_t key = 0;  ///< of the group: what its gather op is told as the item's index
  std::vector<ElementRef> items;
  std::vector<std::uint64_t> numbers;  ///< in HeldInput
};

/// Decides which elements go together. That must follow from the elements that are still held, in
/// their order: a restored run adds those again. Used by one thread.
class Grouping {
 public:
  virtual ~Grouping() = default;
  /// Puts an item with a key in a group. Groups that are complete go to `done`. A status that is
  /// not ok says why there is no place for it.
  virtual Status add(const ElementRef& item, std::uint64_t number, std::deque<Gathered>& done) = 0;
  /// What is left, at the end of the input.
  virtual void finish(std::deque<Gathered>& done) = 0;
};

/// Items, made by `program` of each group. An element that failed, or has no place, is an error
/// where it would have been added; the groups lose nothing.
class GroupingIterator final : public OrderIterator {
 public:
  GroupingIterator(OrderIteratorPtr keyed, std::unique_ptr<Grouping> grouping, ProgramPtr program,
                   std::string stage)
      : input_(std::move(keyed)),
        grouping_(std::move(grouping)),
        program_(std::move(program)),
        stage_(std::move(stage)) {}

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
