// Counts of the running work and the waiting threads of a run.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/core/batch_holder.h"

namespace penstock {

/// A guard that adds one to a count until it is destroyed.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) noexcept : count_(count) {
    count_.fetch_add(1, std::memory_order_acq_rel);
  }
  ~Counted() { count_.fetch_sub(1, std::memory_order_acq_rel); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& count_;
};

class Resting;

/// Counts the running work of a run and its waiting threads. From the counts the engine can tell
/// when no work is left that could return memory. Thread-safe.
class Activity {
 public:
  /// `threads` threads compute. `lost_count` is called, perhaps under a lock, when a count would
  /// fall below zero. Then something was done twice, and no result of the engine can be trusted.
  /// `quiet` is called, without a lock, by the last thread of the run to rest while its consumer
  /// waits. `holder` takes the run's batches; it may be null.
  Activity(int threads, std::function<void()> lost_count, std::function<void()> quiet,
           std::shared_ptr<const BatchHolder> holder = nullptr)
      : plenty_(2 * threads),
        lost_count_(std::move(lost_count)),
        became_quiet_(std::move(quiet)),
        holder_(std::move(holder)) {}

  /// Notes that work began, such as a group that was handed over, and that it ended or now waits in
  /// line for memory. Call `ended` without a lock.
  void began() noexcept;
  void ended() noexcept EXCLUDES(mutex_);
  /// Takes back `began`, for work that could not be started.
  void not_begun() noexcept { take_off(at_work_); }
  /// Count the work that began so far and the blocked groups that were made.
  void advanced() noexcept { advances_.fetch_add(1, std::memory_order_acq_rel); }
  std::uint64_t advances() const noexcept { return advances_.load(std::memory_order_acquire); }
  /// Note that a group is ready (it needs nothing but a thread, or is being executed), and that it
  /// no longer is. `group_not_ready` returns true if threads may lack work from now on.
  void group_ready() noexcept { ready_.fetch_add(1, std::memory_order_seq_cst); }
  bool group_not_ready() noexcept { return take_off(ready_) == plenty_; }
  /// True if enough groups are ready to keep every thread busy for a while.
  bool has_plenty() const noexcept { return ready_.load(std::memory_order_seq_cst) >= plenty_; }

  /// Returns the work that is under way: groups, and threads that work for the run and do not rest.
  /// It may still return memory.
  int at_work() const noexcept { return at_work_.load(std::memory_order_acquire); }
  /// Notes, until the result is destroyed, that the run's caller waits: for `Iterator::next`, or to
  /// resume from a saved position. Work that waits for a thread then gets one.
  [[nodiscard]] Counted consumer_waits() noexcept { return Counted(consumers_waiting_); }
  const std::atomic<int>& consumers_waiting() const noexcept { return consumers_waiting_; }
  /// True if no work is under way, the consumer waits, no event has happened that a resting thread
  /// waits for, and no memory comes back from the holder. Then this stays so until code outside the
  /// run changes it.
  bool quiet() const noexcept EXCLUDES(mutex_);
  /// False if the run's caller returns no batch before it gets the next one.
  bool caller_may_return() const noexcept { return holder_ == nullptr || holder_->may_return(); }
  /// True if this thread works for this run and is not its consumer.
  bool works_here() const noexcept;
  /// True if it arranges the elements of a segment of this run.
  bool arranges_here() const noexcept;
  /// True if this thread works for this run, and one of its guards has told it to stop.
  bool told_to_stop() const noexcept;

  /// Subtracts one from a count of the engine.
  template <typename Count>
  void take_off(Count& count) noexcept {
    if (count == 0) {
      lost_count_();
    } else {
      --count;
    }
  }
  /// Does the same for a count that several threads change. Returns the count before.
  int take_off(std::atomic<int>& count) noexcept;

 private:
  friend class AtWork;
  friend class Resting;

  const int plenty_;
  const std::function<void()> lost_count_;
  const std::function<void()> became_quiet_;
  const std::shared_ptr<const BatchHolder> holder_;
  std::atomic<int> at_work_{0};
  std::atomic<int> ready_{0};
  std::atomic<int> consumers_waiting_{0};
  std::atomic<std::uint64_t> advances_{0};
  mutable Mutex mutex_;
  Resting* resting_ GUARDED_BY(mutex_) = nullptr;  // the first of a list
};

/// A guard: this thread works for a run until it is destroyed, except while the thread rests.
class AtWork {
 public:
  /// The roles of threads that arrange the elements of a segment, and of the run's consumer.
  struct Arranges {
    const std::atomic<bool>& stop;  ///< becomes true when the thread has to stop
  };
  struct Consumes {};

  explicit AtWork(Activity& activity) noexcept : AtWork(activity, nullptr, false) {}
  AtWork(Activity& activity, Arranges role) noexcept : AtWork(activity, &role.stop, false) {}
  AtWork(Activity& activity, Consumes /*role*/) noexcept : AtWork(activity, nullptr, true) {}
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  friend class Activity;
  friend class Resting;
  AtWork(Activity& activity, const std::atomic<bool>* stop, bool consumes) noexcept;
  Activity& activity_;
  const std::atomic<bool>* const stop_;  // null: stops when the run is cancelled
  const bool consumes_;
  AtWork* const outer_;
  AtWork* const counted_;  // this, or the guard around it that counts for both
};

/// A guard: this thread rests, and does not count as working for its run, until it is destroyed. It
/// waits until a count of events differs from what it has seen, or for a while. So a thread that
/// was woken counts again at once, even if it gets no CPU. Make it without a lock: the last thread
/// to rest finds out who may continue.
class Resting {
 public:
  Resting(const std::atomic<std::uint64_t>& events, std::uint64_t seen) noexcept;
  ~Resting();
  Resting(const Resting&) = delete;
  Resting& operator=(const Resting&) = delete;

 private:
  friend class Activity;
  AtWork* const work_;  // null if the thread does not work
  const std::atomic<std::uint64_t>& events_;
  const std::uint64_t seen_;
  Resting* next_ = nullptr;  // guarded by the activity's mutex
};

}  // namespace penstock
