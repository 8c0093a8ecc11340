// How many threads compute at once.
#pragma once

#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "pipeline/core/ring.h"
#include "pipeline/core/thread_annotations.h"
#include "pipeline/engine/tuning_log.h"

namespace penstock {

/// The compute arena of a run, of which as many threads are used as its consumer needs. It begins
/// with one. There is one more, up to `most`, whenever work has waited 2 ms for a thread although
/// the consumer waits too; and one less when for a while the consumer never had to wait and one
/// thread less could have done all there was. The while doubles each time that this was wrong.
/// Thread-safe.
class Workers : public std::enable_shared_from_this<Workers> {
 public:
  /// With `by_quota` never more than the container's quota says, which may change while it runs.
  /// `consumers_waiting` outlives all work.
  Workers(int most, bool by_quota, const std::atomic<int>& consumers_waiting,
          std::shared_ptr<TuningLog> log);

  void submit(std::function<void()> work) EXCLUDES(mutex_);
  /// Looks again whether work has waited too long: for who waits for its result.
  void look() EXCLUDES(mutex_);
  int allowed() const EXCLUDES(mutex_);
  /// Waits until nothing runs and lets go of the arena, which none of its own threads may do.
  void stop() EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;
  struct Task {
    std::function<void()> work;
    Clock::time_point since;
  };

  void enqueue(std::function<void()> work);
  void run(std::function<void()> work) noexcept EXCLUDES(mutex_);
  bool grow_if_late(Clock::time_point now) REQUIRES(mutex_);
  void ask_quota(Clock::time_point now) EXCLUDES(mutex_);
  void shrink_if_idle(Clock::time_point now) REQUIRES(mutex_);
  void begin_while(Clock::time_point now) REQUIRES(mutex_);

  const int size_;
  const bool by_quota_;
  const std::atomic<int>& consumers_waiting_;
  const std::shared_ptr<TuningLog> log_;
  tbb::task_arena arena_;

  mutable Mutex mutex_;
  CondVar idle_;
  Ring<Task> queue_ GUARDED_BY(mutex_);
  int most_ GUARDED_BY(mutex_);
  Clock::time_point asked_ GUARDED_BY(mutex_);
  int allowed_ GUARDED_BY(mutex_) = 1;
  int running_ GUARDED_BY(mutex_) = 0;
  Clock::time_point while_began_ GUARDED_BY(mutex_);
  std::chrono::nanoseconds busy_ GUARDED_BY(mutex_){0};  // of all threads, since then
  std::chrono::milliseconds while_ GUARDED_BY(mutex_){1000};
  bool shrunk_ GUARDED_BY(mutex_) = false;  // by the last change
};

}  // namespace penstock
