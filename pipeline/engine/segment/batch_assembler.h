// Puts elements, made in any order, into batches in the order of the input.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/core/batch_share.h"
#include "pipeline/core/ring.h"
#include "pipeline/core/waker.h"
#include "pipeline/engine/errors/error_account.h"
#include "pipeline/engine/make/group.h"
#include "pipeline/engine/segment/partial_batch.h"

namespace penstock {

/// A state machine that assembles batches in the order of the input. Each element gets a row of a
/// slot when it is admitted, in order. So the work writes its result there directly, and nothing is
/// copied.
///
/// An element that fails leaves a hole. With `skip`, the first row of the next batch moves up, if
/// that batch has been begun, and so forth up to the batch that is being filled. That one extends
/// into its slot's spare rows. The slot puts the rows in order when the batch is complete. With
/// `fail`, the batch up to the hole is lost, the error is delivered in its place, and the rows
/// after it begin the next batch. So the order of batches and errors is that of tf.data.
///
/// It has no threads and never waits. Not synchronised.
class BatchAssembler {
 public:
  /// `path` distinguishes the batches of different repetitions. `room_made` is notified when new
  /// elements find room again after there was none.
  BatchAssembler(ErrorAccount account, bool drop_remainder, std::uint64_t path, Waker& room_made)
      : account_(std::move(account)),
        drop_remainder_(drop_remainder),
        path_(path),
        room_made_(room_made) {}

  /// The part of an epoch's batches that the assembler makes.
  struct Share {
    BatchShare batches{};
    std::uint64_t epoch = 0;
    std::int64_t rows = 0;  ///< rows of a full batch
  };
  /// Makes only this share. An error is then the last output. REQUIRES: no batch was opened.
  void make_only(const Share& share) { share_ = share; }
  /// True if no row of the next batch to be opened is to be made. Such a batch is hollow.
  bool next_is_hollow() const noexcept;
  void open_hollow();
  /// Returns the next rows, as far as batches were opened, that are either all to be made or all to
  /// be left out.
  PartialBatch::Stretch stretch();
  /// Gives rows to `count` elements that are not to be made. REQUIRES: stretch() has as many rows.
  void skip(std::uint64_t first, std::size_t count);

  /// Returns how many rows the batch that is being filled has for new elements.
  std::size_t room();
  /// Begins another batch. All slots have the same layout.
  void open(Ref<Slot> slot);
  /// True if no more elements may be admitted for now: too many known failures wait for their turn,
  /// or too many hollow batches wait to be taken.
  bool held_up() const noexcept {
    return failures_.size() >= kMostFailures || hollow_ >= kMostHollow;
  }
  /// True if no batch is being filled and no output waits to be taken.
  bool empty() const noexcept { return partial_.empty() && outputs_.empty(); }
  bool has_output() const noexcept { return !outputs_.empty(); }
  /// True if the consumer can have nothing before the oldest batch, of which elements are being
  /// made.
  bool waits_for_head() const noexcept {
    return outputs_.empty() && !partial_.empty() && partial_.front().pending();
  }
  /// Assigns rows to the group's elements. REQUIRES: there is room for all.
  void admit(Group& group);
  /// Notes that the results of the group's elements are in their rows, except for its failures.
  void complete(Group& group);
  /// True if the oldest batch, or error, waits for this group.
  bool is_first(const Group& group) const;
  void end();
  std::size_t take(std::span<ElementRef> out);
  bool drained() const noexcept { return over_ || (ended_ && empty()); }
  void settle();

  std::uint64_t consumed() const noexcept { return consumed_; }
  std::uint64_t skipped() const noexcept { return skipped_; }
  /// Returns how many batches were taken.
  std::uint64_t delivered() const noexcept { return delivered_; }
  /// Returns the slots of batches that came to nothing, linked to each other; null: there are none.
  Ref<Slot> dropped() noexcept { return std::move(dropped_); }
  /// Returns the bytes of the largest batch so far, including texts.
  std::uint64_t largest() const noexcept { return largest_; }
  /// Returns the most bytes that the texts of a batch counted so far.
  std::uint64_t most_text() const noexcept { return most_text_; }
  void restore(std::uint64_t consumed, std::uint64_t skipped, std::uint64_t delivered);

 private:
  PartialBatch& partial(std::uint64_t number);
  PartialBatch* current();
  PartialBatch fresh();
  void advance();
  bool resolve_head();
  bool resolve_failure(PartialBatch& head);
  bool close_gaps();
  bool move_rows_up(std::size_t to);
  bool nothing_behind(std::size_t place) const;
  std::uint64_t settled();
  void pass_over_failures();
  void deliver(PartialBatch& head);
  void finish_head(bool deliver_it);
  void drop(Ref<Slot> slot) noexcept;
  void put_error(Status status, std::uint64_t reached);

  static constexpr std::size_t kMostFailures = 4096;
  static constexpr std::size_t kMostHollow = 256;

  struct Output {
    ElementRef item;
    std::uint64_t consumed = 0;  // items of the input up to here
    std::uint64_t skipped = 0;   // failed items among them
    bool hollow = false;
  };

  ErrorAccount account_;
  const bool drop_remainder_;
  const std::uint64_t path_;
  Waker& room_made_;
  std::vector<PartialBatch> spare_;  // finished ones, which keep their vectors' memory
  Ref<Slot> dropped_;
  Ring<PartialBatch> partial_;  // oldest first
  std::uint64_t opened_ = 0;    // so far
  std::uint64_t current_ = 0;   // number of the batch that new elements go to
  Ring<Output> outputs_;
  std::optional<Share> share_;   // empty: all batches are made
  std::uint64_t before_ = 0;     // batches of the epoch that earlier runs delivered
  std::size_t hollow_ = 0;       // hollow batches opened but not taken yet
  std::uint64_t batches_ = 0;    // batches made
  std::uint64_t delivered_ = 0;  // batches taken
  std::uint64_t largest_ = 0;
  std::uint64_t most_text_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t skipped_ = 0;
  // With `skip`: elements that failed and have not been skipped yet, by sequence number.
  std::map<std::uint64_t, Status> failures_;
  std::uint64_t judged_ = 0;  // elements up to the last one skipped
  std::uint64_t skipped_ahead_ = 0;
  bool ended_ = false;
  bool over_ = false;  // the error budget is exceeded, or an error ended a share
};

}  // namespace penstock
