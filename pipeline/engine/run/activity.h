// Counts of the running work and the waiting threads of a run.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <sys/types.h>

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

class Arranging;

/// Counts the running work of a run and its waiting threads. From the counts the engine can tell
/// when no work is left that could return memory. Thread-safe.
class Activity {
 public:
  /// `threads` threads compute. `lost_count` is called, perhaps under a lock, when a count would
  /// fall below zero. Then something was done twice, and no result of the engine can be trusted.
  /// `holder` takes the run's batches; it may be null.
  Activity(int threads, std::function<void()> lost_count,
           std::shared_ptr<const BatchHolder> holder = nullptr)
      : plenty_(2 * threads), lost_count_(std::move(lost_count)), holder_(std::move(holder)) {}

  /// Notes that a group was handed over, and that it ended or now waits in line for memory.
  void group_began() noexcept;
  void group_ended() noexcept { take_off(at_work_); }
  /// Count the groups handed over so far and the elements made from blocked groups.
  void advanced() noexcept { advances_.fetch_add(1, std::memory_order_acq_rel); }
  std::uint64_t advances() const noexcept { return advances_.load(std::memory_order_acquire); }
  /// Note that a group is ready (it needs nothing but a thread, or is being executed), and that it
  /// no longer is. `group_not_ready` returns true if threads may lack work from now on.
  void group_ready() noexcept { ready_.fetch_add(1, std::memory_order_seq_cst); }
  bool group_not_ready() noexcept { return take_off(ready_) == plenty_; }
  /// True if enough groups are ready to keep every thread busy for a while.
  bool has_plenty() const noexcept { return ready_.load(std::memory_order_seq_cst) >= plenty_; }

  /// Returns the number of groups being executed, plus the threads that work for an order segment.
  /// These may still return memory.
  int at_work() const noexcept { return at_work_.load(std::memory_order_acquire); }
  /// Returns how many milliseconds a thread waits for memory before it looks again. They are few if
  /// no work is running, because then nothing wakes the thread.
  int moment_ms() const noexcept { return at_work() > 0 ? 20 : 2; }
  /// Notes, until the result is destroyed, that the run's caller waits: for `Iterator::next`, or to
  /// resume from a saved position. Results that were made ahead may then be given up, and work that
  /// waits for a thread gets one.
  [[nodiscard]] Counted consumer_waits() noexcept;
  const std::atomic<int>& consumers_waiting() const noexcept { return consumers_waiting_; }
  /// Notes, until the result is destroyed, that this thread of an order segment waits for memory.
  [[nodiscard]] Counted waits_for_memory() noexcept { return Counted(memory_waiters_); }
  int memory_waiters() const noexcept { return memory_waiters_.load(std::memory_order_acquire); }
  /// True if no work is running, the consumer waits, and no memory comes back from the holder.
  bool quiet() const noexcept {
    return at_work() == 0 && consumers_waiting_.load(std::memory_order_acquire) > 0 &&
           (holder_ == nullptr || !holder_->returns_memory());
  }
  /// True if a thread other than the calling one could run now: the consumer, or a thread that
  /// arranges elements. Such a thread was woken, but may not have got a CPU yet.
  bool has_runnable_threads() const noexcept EXCLUDES(mutex_);
  /// True if this thread works for this run.
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
  friend class Arranging;

  /// Returns the thread of number `i` in the list; 0 if there is none.
  pid_t arranging_thread(std::size_t i) const noexcept EXCLUDES(mutex_);

  const int plenty_;
  const std::function<void()> lost_count_;
  const std::shared_ptr<const BatchHolder> holder_;
  std::atomic<int> at_work_{0};
  std::atomic<int> ready_{0};
  std::atomic<int> consumers_waiting_{0};
  std::atomic<int> memory_waiters_{0};
  std::atomic<std::uint64_t> advances_{0};
  std::atomic<pid_t> consumer_{0};  // the thread that waited last
  mutable Mutex mutex_;
  Arranging* arranging_ GUARDED_BY(mutex_) = nullptr;  // the first of a list
};

/// A guard: this thread arranges elements for a run until it is destroyed. Allocates nothing.
class Arranging {
 public:
  explicit Arranging(Activity& activity) noexcept;
  ~Arranging();
  Arranging(const Arranging&) = delete;
  Arranging& operator=(const Arranging&) = delete;

 private:
  friend class Activity;
  Activity& activity_;
  const pid_t thread_;
  Arranging* next_ = nullptr;  // guarded by the activity's mutex
};

/// A guard: this thread works for a run until it is destroyed, except while the thread rests.
class AtWork {
 public:
  /// `stop` becomes true when the thread has to stop. If null, it stops when the run is cancelled.
  explicit AtWork(Activity& activity, const std::atomic<bool>* stop = nullptr) noexcept;
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  friend class Activity;
  friend class Resting;
  Activity& activity_;
  const std::atomic<bool>* const stop_;
  AtWork* const outer_;
  bool rests_ = false;  // and does not count
};

/// A guard: this thread rests, and does not count as working for its run, until it is destroyed.
class Resting {
 public:
  Resting() noexcept;
  ~Resting();
  Resting(const Resting&) = delete;
  Resting& operator=(const Resting&) = delete;

 private:
  AtWork* const work_;  // null if the thread does not work, or rests already
};

/// A timer that tells when no work has run for a while although the consumer waits. Then no work is
/// left that could return memory. While a thread of the run could run but gets no CPU, the timer
/// takes two seconds longer. Not synchronised.
class QuietTimer {
 public:
  explicit QuietTimer(std::chrono::milliseconds limit = std::chrono::milliseconds(100))
      : limit_(limit) {}
  /// Notes the present state of the run. True if the run was quiet for the whole limit: enough to
  /// fail an element. Reads files to see what threads do, so call it without a lock.
  bool over(const Activity& activity) noexcept { return over(activity, limit_); }
  enum class Quiet {
    no,               ///< not for the whole limit
    unless_runnable,  ///< unless a thread of the run could run now (Activity::has_runnable_threads)
    yes,
  };
  /// Notes the present state of the run, and reads no files.
  Quiet quiet(const Activity& activity) noexcept { return quiet(activity, limit_); }
  /// True if the run was quiet for a moment: enough to do again what was done ahead, which costs
  /// time but changes nothing.
  bool seems_over(const Activity& activity) noexcept {
    return over(activity, std::min(limit_, std::chrono::milliseconds(2)));
  }
  void renew() noexcept { quiet_since_ = {}; }

 private:
  bool over(const Activity& activity, std::chrono::milliseconds limit) noexcept;
  Quiet quiet(const Activity& activity, std::chrono::milliseconds limit) noexcept;

  std::chrono::milliseconds limit_;
  std::chrono::steady_clock::time_point quiet_since_{};
  std::uint64_t advances_ = 0;  // when the run was last seen
};

}  // namespace penstock
