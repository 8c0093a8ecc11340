// Puts elements that are made in any order together to batches in theirs.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/core/ring.h"
#include "pipeline/core/waker.h"
#include "pipeline/engine/error_account.h"
#include "pipeline/engine/group.h"
#include "pipeline/engine/partial_batch.h"

namespace penstock {

/// Batches in the order of the input. Each element is given a row of a slot when it is admitted, in
/// order, so that the work writes there at once and nothing is copied.
///
/// An element that fails leaves a hole. With `skip` the first row of the next batch moves up, if
/// that has been begun, and so on to the batch that is being filled, which goes on into its slot's
/// spare rows; the slot puts rows in order when the batch is complete. With `fail` the batch up to
/// the hole is lost, the error stands in its place, and the rows behind it begin the next batch: so
/// tf.data's order of batches and errors holds.
///
/// A state machine: it has no threads, and never waits. Not synchronised.
class BatchAssembler {
 public:
  /// `path` tells the batches of different repetitions apart. `room_made` is notified where new
  /// elements find room again that they did not have.
  BatchAssembler(ErrorAccount account, bool drop_remainder, std::uint64_t path, Waker& room_made)
      : account_(account), drop_remainder_(drop_remainder), path_(path), room_made_(room_made) {}

  /// Rows that new elements find in the batch that is filled now.
  std::size_t room();
  /// Begins another batch. All slots have the same layout.
  void open(Ref<Slot> slot);
  /// True if no more may be admitted before failures that are known have had their turn.
  bool held_up() const noexcept { return failures_.size() >= kMostFailures; }
  /// True if nothing is being filled or waits to be taken.
  bool empty() const noexcept { return partial_.empty() && outputs_.empty(); }
  /// Gives the group's elements their places. REQUIRES: there is room in all.
  void admit(Group& group);
  /// The group's elements are in their places, but for its failures.
  void complete(Group& group);
  /// True if the oldest batch, or error, waits for this group.
  bool is_first(const Group& group) const;
  void end();
  std::size_t take(std::span<ElementRef> out);
  bool drained() const noexcept { return over_ || (ended_ && empty()); }
  void settle();

  std::uint64_t consumed() const noexcept { return consumed_; }
  std::uint64_t skipped() const noexcept { return skipped_; }
  /// Batches that were taken.
  std::uint64_t delivered() const noexcept { return delivered_; }
  /// Bytes of the largest batch so far, texts included.
  std::uint64_t largest() const noexcept { return largest_; }
  void restore(std::uint64_t consumed, std::uint64_t skipped, std::uint64_t delivered);

 private:
  PartialBatch& partial(std::uint64_t number);
  PartialBatch* current();
  void advance();
  bool resolve_head();
  bool resolve_failure(PartialBatch& head);
  bool close_gaps();
  bool move_rows_up(std::size_t to);
  bool nothing_behind(std::size_t place) const;
  std::uint64_t settled();
  void pass_over_failures();
  void finish_head(bool deliver_it);
  void put_error(Status status, std::uint64_t reached);

  static constexpr std::size_t kMostFailures = 4096;

  struct Output {
    ElementRef item;
    std::uint64_t consumed = 0;  // items of the input, up to here
    std::uint64_t skipped = 0;   // bad ones among them
  };

  ErrorAccount account_;
  const bool drop_remainder_;
  const std::uint64_t path_;
  Waker& room_made_;
  std::vector<PartialBatch> spare_;  // keep their vectors' memory
  Ring<PartialBatch> partial_;       // oldest first
  std::uint64_t opened_ = 0;         // so far
  std::uint64_t current_ = 0;        // number of the one that new elements go to
  Ring<Output> outputs_;
  std::uint64_t batches_ = 0;    // made
  std::uint64_t delivered_ = 0;  // of those
  std::uint64_t largest_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t skipped_ = 0;
  // With `skip`: elements that failed and have yet to be passed over, by sequence number.
  std::map<std::uint64_t, Status> failures_;
  std::uint64_t judged_ = 0;  // elements up to the last that was passed over
  std::uint64_t passed_over_ = 0;
  bool ended_ = false;
  bool over_ = false;  // the ledger said so
};

}  // namespace penstock
