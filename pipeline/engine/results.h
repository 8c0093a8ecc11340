// What becomes of values that are made in parallel: the contract of batches and of single values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pipeline/engine/group.h"
#include "pipeline/engine/slots.h"

namespace penstock {

/// What a segment wants of its results' room.
struct Demand {
  std::size_t wanted = 0;       ///< elements for the next group
  std::size_t most = 0;         ///< that a group may have
  std::size_t group_limit = 0;  ///< groups that may be on their way or wait to be taken
  bool crowded = false;         ///< as many as are worth it are on their way
  bool consumer_waits = false;
  bool reads_starve = false;  ///< slow reads leave threads without work
};

/// The results of a segment, in their order: each group is admitted in order, and completed
/// whenever it is made. A state machine: it has no threads, and never waits. Not synchronised.
class Results {
 public:
  virtual ~Results() = default;

  /// Where results are written when they are made; null: they stay in their group.
  virtual const SlotLayout* layout() const noexcept { return nullptr; }
  /// Elements that may be handed over now; 0: none for now.
  virtual std::size_t room(const Demand& demand) = 0;
  /// Takes note of a group that is about to be carried out. REQUIRES: no more elements than `room`
  /// said, and groups in order.
  virtual void admit(Group& group) = 0;
  /// All of the group's results are there, or why there are none. Gives it back to its pool, now or
  /// when they were taken.
  virtual void complete(Group& group) = 0;
  /// A group that had found no memory has more results.
  virtual void redone(Group& /*group*/) {}
  /// True if nothing can be taken before this group is done, or more of it is made.
  virtual bool is_first(const Group& group) const = 0;
  /// The last group with results that may be given up and made again, and how many have to stay.
  struct Undelivered {
    Group* group = nullptr;
    std::size_t kept = 0;
  };
  virtual Undelivered last_undelivered(bool /*consumer_waits*/) { return {}; }
  /// No more groups will be admitted.
  virtual void end() = 0;
  /// Moves what the consumer may have to the front of `out`; returns how many.
  virtual std::size_t take(std::span<ElementRef> out) = 0;
  /// True once nothing can be taken any more.
  virtual bool drained() const = 0;
  /// An error that the waiting consumer must get because nothing else will ever come; else ok.
  virtual Status stuck() { return {}; }
  /// Says to the error account what was good behind the last bad element.
  virtual void settle() = 0;

  /// Items whose results were taken, and bad ones among those before them.
  virtual std::uint64_t consumed() const noexcept = 0;
  virtual std::uint64_t skipped() const noexcept = 0;
  /// What is to be remembered beside these, and back to it.
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(StateReader& state, std::uint64_t consumed, std::uint64_t skipped) = 0;

  GroupPool& groups() noexcept { return groups_; }

 private:
  GroupPool groups_;
};

}  // namespace penstock
