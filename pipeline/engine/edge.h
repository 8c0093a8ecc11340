// Where an order segment hands its items to parallel work and gets values back.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_set>
#include <vector>

#include "pipeline/core/ring.h"
#include "pipeline/core/thread_annotations.h"
#include "pipeline/engine/group.h"
#include "pipeline/engine/group_sizer.h"
#include "pipeline/engine/run.h"

namespace penstock {

/// What value and batch edges have in common: a thread that pulls the input and hands groups over,
/// and the end. `pull` and destruction belong to one consumer at a time.
class Edge : public Segment {
 public:
  ~Edge() override { run_.remove(*this); }

  std::size_t pull(std::span<Item> out) final;
  /// Where the input stood a little before the last result that was delivered, and how many
  /// results to pass over from there. Whatever is prefetched is not part of it.
  void save(StateWriter& state) const final;
  void restore(StateReader& state) final;
  /// Called once, on the edge's thread, when everything has been handed over.
  void on_exhausted(std::function<void()> callback) final EXCLUDES(mutex_);
  /// Makes a waiting consumer look again.
  void wake() noexcept EXCLUDES(mutex_);
  /// Starts the thread now rather than at the first pull.
  void start() final EXCLUDES(mutex_);
  /// True if it ends in front of its input's end: the input, or the engine itself, can't go on.
  bool broken() const final EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return broken_ || threw_at_ != UINT64_MAX;
  }

  /// Makes a starved group's items one by one, from where the last try stopped. False when there is
  /// no memory for the next; with `last_try` that one gets the error.
  bool redo(Group& group, bool last_try) noexcept EXCLUDES(mutex_);
  /// True if the consumer can get nothing more before more of this starved group is made.
  bool needs(const Group& group) const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return stopping() || is_first(group);
  }
  /// Gives up results of a group that were made ahead of their time; it joins the starved. False if
  /// there are none.
  bool evict() EXCLUDES(mutex_);
  /// Takes note of a group that is done.
  void finish(Group& group) noexcept EXCLUDES(mutex_);

 protected:
  Edge(Run& run, const Node& owner, OrderIteratorPtr input, const OpenContext& context,
       std::size_t group_limit);

  /// Stops the thread, wherever its pull may wait, and waits for groups in flight. The derived
  /// destructor calls it first.
  void stop() EXCLUDES(mutex_);

  /// Waits until something may be handed over and returns how much; 0 to stop.
  virtual std::size_t wait_for_room() EXCLUDES(mutex_) = 0;
  /// Takes note of a group before it runs.
  virtual void admit(Group& group) REQUIRES(mutex_) = 0;
  /// Puts the results of `work`, which are those of the group's items from `first` on, in their
  /// places and lets go of
  /// them. Runs where the work ran.
  virtual void store(Group&, std::size_t /*first*/, std::span<WorkItem> /*work*/) {}
  /// True if results are stored, so that they need not all be kept until the group is done.
  virtual bool stores() const noexcept { return false; }
  /// True if what is stored is one byte string each.
  virtual bool stores_texts() const noexcept { return false; }

  /// Takes note of a group whose results are there. Must make outputs or recycle it in time.
  virtual void finished(Group& group) REQUIRES(mutex_) = 0;
  /// A starved group has more results.
  virtual void redone_more(Group&) REQUIRES(mutex_) {}
  /// True if nothing is delivered before this group is done, or more of it is made.
  virtual bool is_first(const Group& group) const REQUIRES(mutex_) = 0;
  /// The last group with results that may be undone, and how many of them have to stay.
  struct Undelivered {
    Group* group = nullptr;
    std::size_t kept = 0;
  };
  virtual Undelivered last_undelivered() REQUIRES(mutex_) { return {}; }
  /// Lets go of what `store` kept of a group that is going to be made again.
  virtual void unstore(Group&) {}
  /// The input has ended.
  virtual void ended() REQUIRES(mutex_) = 0;
  /// Moves what can be delivered to the front of `out`.
  virtual std::size_t deliver(std::span<Item> out) REQUIRES(mutex_) = 0;
  /// True once nothing will be delivered any more.
  virtual bool drained() const REQUIRES(mutex_) = 0;
  /// What a derived class must remember beside the count of consumed items.
  virtual void save_more(StateWriter&) const REQUIRES(mutex_) {}
  virtual void restore_more(StateReader&) REQUIRES(mutex_) {}
  /// An error that the waiting consumer must get because nothing else will ever come; else ok.
  virtual Status stuck() REQUIRES(mutex_) { return {}; }

  bool stopping() const noexcept {
    return stopping_.load(std::memory_order_acquire) || run_.cancelled();
  }
  void recycle(Group& group) REQUIRES(mutex_);

  /// Notes that a group has been read, so that it waits for nothing but a thread, or no longer.
  void set_ready(Group& group, bool ready) REQUIRES(mutex_);

  bool consumer_waits() const REQUIRES(mutex_) { return waiting_; }
  /// True if slow reads leave threads without work.
  bool reads_starve() const REQUIRES(mutex_) {
    return reads_block_ && ready_ == 0 && in_flight_ > 0 && pace_.slow();
  }
  /// Groups that may wait for threads at once: enough to keep every one busy.
  std::size_t ready_limit() const { return 2 * static_cast<std::size_t>(run_.threads()) + 4; }
  /// Groups that may be on their way at once: more where they wait for a device, as many as it
  /// takes so that threads don't wait for it too.
  std::size_t group_limit() const REQUIRES(mutex_) {
    return ready_limit() + (reads_block_ ? pace_.groups_ahead.load(std::memory_order_relaxed) : 0);
  }
  bool crowded() const REQUIRES(mutex_) {
    return in_flight_ >= group_limit() || ready_ >= ready_limit() || starved_ > 0;
  }

  Run& run_;
  const Node& owner_;
  StageCounters* const counters_;
  GroupSizer sizer_;
  ReadPace& pace_;
  mutable Mutex mutex_;
  const std::uint64_t key_;  // of random numbers
  const SkipLedger::Account account_;
  std::uint64_t consumed_ GUARDED_BY(mutex_) = 0;  // items whose results were delivered
  std::uint64_t skipped_ GUARDED_BY(mutex_) = 0;   // bad ones among those before them

 private:
  void dispatch() noexcept;
  void hand_over_all();
  /// In a catch block: something that the engine itself does has failed, and this edge ends with
  /// that error. Needs no memory: where there is none for the error either, it says so.
  void break_down() noexcept EXCLUDES(mutex_);
  void break_down_locked() noexcept REQUIRES(mutex_);
  /// A group will come to nothing; somebody may wait for that.
  void abandon(Group& group) noexcept EXCLUDES(mutex_);
  void drop(Group& group) noexcept EXCLUDES(mutex_);
  /// One group less is in flight.
  void land() noexcept REQUIRES(mutex_);
  void note_read_ahead(std::size_t from, std::size_t to) noexcept REQUIRES(mutex_);
  void fill(Group& group, std::size_t wanted);
  std::size_t drop_had(std::span<Item> items);
  void remember(const Group& group) EXCLUDES(mutex_);
  bool hand_over(Group& group) EXCLUDES(mutex_);
  void submit_reads(Group& group);
  void read(Group& group, std::size_t part, std::size_t parts) noexcept;
  bool read_part(Group& group, std::size_t part, std::size_t parts) noexcept EXCLUDES(mutex_);
  void read_items_of(Group& group, std::size_t part, std::size_t parts) EXCLUDES(mutex_);
  void read_texts(Group& group, std::size_t first, std::size_t count, GroupContext& context)
      EXCLUDES(mutex_);
  void store_strays(Group& group);
  void compute(Group& group) noexcept;
  void make(Group& group, bool was_read);
  void make_some(Group& group, std::size_t first, std::size_t count);

  bool make_again(Group& group, std::size_t from, bool last_try);
  void note_redone(Group& group, std::size_t count) EXCLUDES(mutex_);
  void starve(Group& group) noexcept EXCLUDES(mutex_);
  void wait_in_line(Group& group) noexcept EXCLUDES(mutex_);
  Group& take_group() EXCLUDES(mutex_);

  OrderIteratorPtr input_;
  std::atomic<bool> stopping_{false};
  CondVar changed_;
  bool waiting_ GUARDED_BY(mutex_) = false;
  bool started_ GUARDED_BY(mutex_) = false;
  std::size_t in_flight_ GUARDED_BY(mutex_) = 0;
  static constexpr std::size_t kMostReadAhead = 64;
  std::size_t ready_ GUARDED_BY(mutex_) = 0;    // of those in flight
  std::size_t starved_ GUARDED_BY(mutex_) = 0;  // of those
  std::uint64_t sequence_ = 0;                  // of the edge's thread

  struct Snapshot {
    std::uint64_t sequence = 0;  // items handed over before
    std::string input;
    std::vector<std::uint64_t> ordinals;  // of the items since, if their order is free
  };
  void take_snapshot() EXCLUDES(mutex_);
  Ring<Snapshot> snapshots_ GUARDED_BY(mutex_);  // the first at or before consumed_
  std::string spare_snapshot_;                   // of the edge's thread: memory to reuse
  std::vector<std::unique_ptr<Group>> groups_ GUARDED_BY(mutex_);
  std::vector<Group*> free_groups_ GUARDED_BY(mutex_);
  std::function<void()> exhausted_ GUARDED_BY(mutex_);
  bool input_ended_ GUARDED_BY(mutex_) = false;
  bool reads_block_ GUARDED_BY(mutex_) = false;
  bool input_threw_ = false;     // of the edge's thread
  std::size_t most_ = SIZE_MAX;  // of the edge's thread: elements of a group
  std::uint64_t threw_at_ GUARDED_BY(mutex_) = UINT64_MAX;  // the item that says why, if so
  bool broken_ GUARDED_BY(mutex_) = false;
  Ref<Parcel> breakdown_ GUARDED_BY(mutex_);  // what is delivered then, once
  /// Behind an unordered map a restored input gives its items in another order: those that the
  /// consumer has had are told by their ordinals, and dropped when they come.
  const bool free_order_;
  std::unordered_multiset<std::uint64_t> had_;  // of the edge's thread
  std::jthread thread_;
};

/// Nanoseconds since `start`, added to `counter`.
void count_wait(std::atomic<std::uint64_t>& counter, std::chrono::steady_clock::time_point start);

}  // namespace penstock
