// How many threads compute at once.
#pragma once

#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "pipeline/core/ring.h"
#include "pipeline/core/thread_annotations.h"
#include "pipeline/engine/tuning_log.h"

namespace penstock {

/// The threads that a run computes on, as many as its consumer needs. It begins with one, which
/// stands before any work is taken, so that work that was taken is always done. There is one more,
/// up to `most`, whenever work has waited 2 ms for a thread although the consumer waits too; and
/// one less when for a while the consumer never had to wait and one thread less could have done all
/// there was. The while doubles each time that this was wrong. Where no thread can be started, work
/// waits for those that there are. Thread-safe.
class Workers {
 public:
  /// With `by_quota` never more than the container's quota says, which may change while it runs.
  /// `consumers_waiting` outlives all work. Throws Error{resource_exhausted} if no thread can be
  /// started.
  Workers(int most, bool by_quota, const std::atomic<int>& consumers_waiting,
          std::shared_ptr<TuningLog> log);
  /// Waits until everything is done. Not for its own threads.
  ~Workers();

  /// Takes `work`, which must not throw, and does it once; or throws, and does not take it.
  void submit(std::function<void()> work) EXCLUDES(mutex_);
  /// Looks again whether work has waited too long: for who waits for its result.
  void look() EXCLUDES(mutex_);
  int allowed() const EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;
  struct Task {
    std::function<void()> work;
    Clock::time_point since;
  };

  void start() REQUIRES(mutex_);
  void serve_in_arena() noexcept;
  void serve() noexcept EXCLUDES(mutex_);
  static void warn() noexcept;
  bool grow_if_late(Clock::time_point now) noexcept REQUIRES(mutex_);
  bool has_thread_for_more(Clock::time_point now) noexcept REQUIRES(mutex_);
  void ask_quota(Clock::time_point now) noexcept EXCLUDES(mutex_);
  void shrink_if_idle(Clock::time_point now) REQUIRES(mutex_);
  void begin_while(Clock::time_point now) REQUIRES(mutex_);

  const int size_;
  const bool by_quota_;
  const std::atomic<int>& consumers_waiting_;
  const std::shared_ptr<TuningLog> log_;
  // Has a place for each of our threads and none for oneTBB's own. So what a callable does with
  // oneTBB is done by the run's threads, and no other thread has to be started for it.
  tbb::task_arena arena_;
  const bool has_arena_;

  mutable Mutex mutex_;
  CondVar ready_;
  Ring<Task> queue_ GUARDED_BY(mutex_);
  int most_ GUARDED_BY(mutex_);
  Clock::time_point asked_ GUARDED_BY(mutex_);
  Clock::time_point failed_ GUARDED_BY(mutex_);  // to start a thread; none: it never did
  int allowed_ GUARDED_BY(mutex_) = 1;
  int running_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  Clock::time_point while_began_ GUARDED_BY(mutex_);
  std::chrono::nanoseconds busy_ GUARDED_BY(mutex_){0};  // of all threads, since then
  std::chrono::milliseconds while_ GUARDED_BY(mutex_){1000};
  bool shrunk_ GUARDED_BY(mutex_) = false;  // by the last change
  std::vector<std::jthread> threads_ GUARDED_BY(mutex_);
};

}  // namespace penstock
