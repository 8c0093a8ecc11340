// Who is at work for a run, and who waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include <sys/types.h>

#include "pipeline/core/thread_annotations.h"

namespace penstock {

/// One more in a count until it goes.
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

/// Counts what is at work for a run and what waits for it, so that it can be told when nobody is
/// left who could give memory back. Thread-safe.
class Activity {
 public:
  /// `threads` compute. `lost_count` is called, perhaps under a lock, once a count would fall below
  /// zero: then something was done twice, and nothing that the engine makes can be trusted.
  Activity(int threads, std::function<void()> lost_count)
      : plenty_(2 * threads), lost_count_(std::move(lost_count)) {}

  /// A group was handed over; it ends, or waits in line for memory.
  void group_began() noexcept;
  void group_ended() noexcept { take_off(at_work_); }
  /// Groups that were handed over so far, and elements of starved ones that were made.
  void advanced() noexcept { advances_.fetch_add(1, std::memory_order_acq_rel); }
  std::uint64_t advances() const noexcept { return advances_.load(std::memory_order_acquire); }
  /// A group waits for nothing but a thread, or is executed; and no longer. True if threads may
  /// lack work from now on.
  void group_ready() noexcept { ready_.fetch_add(1, std::memory_order_seq_cst); }
  bool group_not_ready() noexcept { return take_off(ready_) == plenty_; }
  /// True if enough groups are ready to keep every thread busy for a while.
  bool has_plenty() const noexcept { return ready_.load(std::memory_order_seq_cst) >= plenty_; }

  /// Groups that are executed now, and threads that work for an order segment: those who may give
  /// memory back.
  int at_work() const noexcept { return at_work_.load(std::memory_order_acquire); }
  /// The caller of the run waits, for `Iterator::next` or to go on from a saved position: what was
  /// made ahead may be given up for it, and what waits for a thread gets one.
  [[nodiscard]] Counted consumer_waits() noexcept;
  const std::atomic<int>& consumers_waiting() const noexcept { return consumers_waiting_; }
  /// This thread, of an order segment, waits for memory.
  [[nodiscard]] Counted waits_for_memory() noexcept { return Counted(memory_waiters_); }
  int memory_waiters() const noexcept { return memory_waiters_.load(std::memory_order_acquire); }
  /// True if nothing is at work and the consumer waits.
  bool quiet() const noexcept {
    return at_work() == 0 && consumers_waiting_.load(std::memory_order_acquire) > 0;
  }
  /// True if a thread that arranges elements, or the consumer, could run now, but for the calling
  /// one: it was woken, and may not have got a CPU yet.
  bool has_runnable_threads() const noexcept EXCLUDES(mutex_);
  /// True if this thread is at work for this run, and was told by its guard to come to its end.
  bool told_to_stop() const noexcept;

  /// Takes one off a count of the engine's.
  template <typename Count>
  void take_off(Count& count) noexcept {
    if (count == 0) {
      lost_count_();
    } else {
      --count;
    }
  }
  /// The same for one that several threads change; returns what it was before.
  int take_off(std::atomic<int>& count) noexcept;

 private:
  friend class AtWork;
  friend class Resting;
  friend class Arranging;

  /// The thread of that number in the list; 0: there is none.
  pid_t arranging_thread(std::size_t i) const noexcept EXCLUDES(mutex_);

  const int plenty_;
  const std::function<void()> lost_count_;
  std::atomic<int> at_work_{0};
  std::atomic<int> ready_{0};
  std::atomic<int> consumers_waiting_{0};
  std::atomic<int> memory_waiters_{0};
  std::atomic<std::uint64_t> advances_{0};
  std::atomic<pid_t> consumer_{0};  // the thread that waited last
  mutable Mutex mutex_;
  Arranging* arranging_ GUARDED_BY(mutex_) = nullptr;  // the first of a list
};

/// This thread arranges elements for a run until the guard goes. Allocates nothing.
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

/// This thread is at work for a run until the guard goes, but for the time that it rests.
class AtWork {
 public:
  /// `stop` says when it is to come to its end; null: when the run is cancelled.
  explicit AtWork(Activity& activity, const std::atomic<bool>* stop = nullptr) noexcept;
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
  /// True if this thread is at work for some run.
  static bool here() noexcept;

 private:
  friend class Activity;
  friend class Resting;
  Activity& activity_;
  const std::atomic<bool>* const stop_;
  const AtWork* const outer_;
};

class Resting {
 public:
  Resting() noexcept;
  ~Resting();
  Resting(const Resting&) = delete;
  Resting& operator=(const Resting&) = delete;
};

/// Over once nothing has been at work for a while although the consumer waits, so that nobody is
/// left who could give memory back. While a thread of the run could run but gets no CPU, it takes
/// two seconds longer. Not synchronised.
class QuietTimer {
 public:
  explicit QuietTimer(std::chrono::milliseconds limit = std::chrono::milliseconds(100))
      : limit_(limit) {}
  /// Notes how the run is now. True if it has been quiet all the while.
  bool over(const Activity& activity) noexcept;
  void renew() noexcept { quiet_since_ = {}; }

 private:
  std::chrono::milliseconds limit_;
  std::chrono::steady_clock::time_point quiet_since_{};
  std::uint64_t advances_ = 0;  // until then
};

}  // namespace penstock
