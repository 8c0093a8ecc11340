// An edge whose results are batches, written in place.
#pragma once

#include <map>

#include "pipeline/engine/edge.h"
#include "pipeline/engine/filling.h"
#include "pipeline/engine/slots.h"

namespace penstock {

/// Batches in the order of the input. Each element is given a row of a slot when it is handed over,
/// in order, so that the work writes there at once and nothing is copied.
///
/// An element that fails leaves a hole. With `skip` the first row of the next batch moves up, if
/// that has been begun, and so on to the batch that is being filled, which goes on into its slot's
/// spare rows; the slot puts rows in order when the batch is complete. With `fail` the batch up to
/// the hole is lost, the error stands in its place, and the rows behind it begin the next batch: so
/// tf.data's order of batches and errors holds.
class BatchEdge final : public Edge {
 public:
  /// `path` tells the batches of different repetitions apart.
  BatchEdge(Run& run, const Node& node, OrderIteratorPtr input, const OpenContext& context,
            std::uint64_t path, std::shared_ptr<SlotPool> pool, std::size_t group_limit,
            bool drop_remainder);
  ~BatchEdge() override {
    stop();
    settle();
  }

 private:
  std::size_t wait_for_room() override;
  void admit(Group& group) override REQUIRES(mutex_);
  void store(Group& group, std::size_t first, std::span<WorkItem> work) override;
  void store_run(Group& group, const Place& place, std::span<WorkItem> work);
  bool stores() const noexcept override { return true; }
  bool stores_texts() const noexcept override;
  void finished(Group& group) override REQUIRES(mutex_);
  bool is_first(const Group& group) const override REQUIRES(mutex_);
  void unstore(Group& group) override;
  void ended() override REQUIRES(mutex_);
  std::size_t deliver(std::span<Item> out) override REQUIRES(mutex_);
  bool drained() const override REQUIRES(mutex_) {
    return over_ || (ended_ && fillings_.empty() && outputs_.empty());
  }
  Status stuck() override REQUIRES(mutex_);

  bool skipping() const noexcept { return run_.options().on_error == OnError::skip; }
  std::size_t rows() const noexcept { return static_cast<std::size_t>(pool_->layout().rows); }
  /// How many slots may be made now.
  SlotPool::Make willing() const;
  /// Has one slot more and more where reads are slow. False if there can't be, or not yet.
  bool widen() REQUIRES(mutex_);
  /// Makes no more batches ahead than their texts, of so many bytes each, are worth.
  void note_texts(std::uint64_t bytes) REQUIRES(mutex_);
  void open_filling(Ref<Slot> slot) REQUIRES(mutex_);
  Filling& filling(std::uint64_t number) REQUIRES(mutex_);
  /// The filling that new elements go to, or null if it has no row left.
  Filling* current() REQUIRES(mutex_);
  void advance() REQUIRES(mutex_);
  /// One step towards delivering the oldest batch; false if there is nothing to do now.
  bool resolve_head() REQUIRES(mutex_);
  bool resolve_failure(Filling& head) REQUIRES(mutex_);
  /// Moves rows up to where failed elements were passed over, in all batches; false if none could.
  bool close_gaps() REQUIRES(mutex_);
  bool steal_rows(std::size_t to) REQUIRES(mutex_);
  bool nothing_behind(std::size_t place) const REQUIRES(mutex_);
  /// Elements before this one are in the head, or failed and nothing comes in front of them.
  std::uint64_t settled() REQUIRES(mutex_);
  /// Charges the failures of settled elements, which are passed over with the head.
  void pass_over_failures() REQUIRES(mutex_);
  /// Counts what was good behind the last bad one, as far as it was delivered.
  void settle() REQUIRES(mutex_);
  /// True if no more may be handed over for now.
  bool held_up() const REQUIRES(mutex_) { return crowded() || failures_.size() >= kMostFailures; }
  void finish_head(bool deliver_it) REQUIRES(mutex_);
  void put_error(Status status, std::uint64_t sequence) REQUIRES(mutex_);

  void save_more(StateWriter& state) const override REQUIRES(mutex_) { state.put(delivered_); }
  void restore_more(StateReader& state) override REQUIRES(mutex_) {
    batches_ = delivered_ = state.get();
    judged_ = consumed_;
    passed_over_ = skipped_;
  }

  static constexpr std::size_t kMostFailures = 4096;

  struct Output {
    Item item;
    std::uint64_t consumed = 0;  // items of the input, up to here
    std::uint64_t skipped = 0;   // bad ones among them
  };

  const std::uint64_t path_;
  const std::shared_ptr<SlotPool> pool_;
  const bool drop_remainder_;
  std::vector<Filling> spare_ GUARDED_BY(mutex_);  // keep their vectors' memory
  Ring<Filling> fillings_ GUARDED_BY(mutex_);      // oldest first
  std::uint64_t opened_ GUARDED_BY(mutex_) = 0;    // fillings so far
  std::uint64_t current_ GUARDED_BY(mutex_) = 0;   // number of the one that new elements go to
  Ring<Output> outputs_ GUARDED_BY(mutex_);
  std::uint64_t batches_ GUARDED_BY(mutex_) = 0;    // made
  std::uint64_t delivered_ GUARDED_BY(mutex_) = 0;  // of those
  // With `skip`: elements that failed and have yet to be passed over, by sequence number.
  std::map<std::uint64_t, Status> failures_ GUARDED_BY(mutex_);
  std::uint64_t judged_ GUARDED_BY(mutex_) = 0;  // elements up to the last that was passed over
  std::uint64_t passed_over_ GUARDED_BY(mutex_) = 0;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::uint64_t most_text_ GUARDED_BY(mutex_) =
      0;                                  // bytes that a batch was taken to have beside its slot
  bool over_ GUARDED_BY(mutex_) = false;  // the ledger said so
  bool without_slot_ GUARDED_BY(mutex_) = false;  // and so waiting
  // Long, because a batch may be held by another thread of the caller's.
  Patience slot_patience_ GUARDED_BY(mutex_){std::chrono::seconds(2)};
};

}  // namespace penstock
