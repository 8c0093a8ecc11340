// The compute threads of a run, and their number.
#pragma once

#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "pipeline/core/ring.h"
#include "pipeline/engine/run/tuning_log.h"

namespace penstock {

/// The threads on which a run computes, as many as its consumer needs. The first one is started
/// before any work is accepted, so accepted work is always done. Another thread is added, up to
/// `most`, whenever work has waited 2 ms for a thread and the consumer waits too. A thread is
/// removed when, for a period, the consumer never had to wait and one thread less could have done
/// all the work. The period doubles each time that this proves wrong. If no thread can be started,
/// work waits for the existing ones. Thread-safe.
class Workers {
 public:
  /// If `by_quota` is true, never uses more threads than the container's quota allows, even if that
  /// changes during the run. `consumers_waiting` must outlive all work. Throws
  /// Error{resource_exhausted} if no thread can be started.
  Workers(int most, bool by_quota, const std::atomic<int>& consumers_waiting,
          std::shared_ptr<TuningLog> log);
  /// Waits until all work is done. Must not be called on its own threads.
  ~Workers();

  /// Accepts `work`, which must not throw, and runs it once. If this throws, the work was not
  /// accepted.
  void submit(std::function<void()> work) EXCLUDES(mutex_);
  /// Checks again whether work has waited too long. For a thread that waits for the result of such
  /// work.
  void look() EXCLUDES(mutex_);
  int allowed() const EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;
  struct Task {
    std::function<void()> work;
    Clock::time_point since;
  };

  /// Work that has waited for a thread for more than a moment, and so has the consumer.
  struct Growth {
    std::size_t groups = 0;  // 0: no thread is to be added
    std::chrono::nanoseconds waited{0};
  };
  /// A time in which one thread less could have done all the work.
  struct Idle {
    std::size_t left = 0;  // threads
    std::chrono::nanoseconds took{0};
    double used = 0;  // threads
  };

  Thread start();
  void serve_in_arena() noexcept;
  void serve() noexcept EXCLUDES(mutex_);
  static void warn() noexcept;
  Growth find_growth(Clock::time_point now) noexcept REQUIRES(mutex_);
  /// Returns true if there is one more thread.
  bool grow(const Growth& growth) noexcept EXCLUDES(mutex_);
  void ask_quota(Clock::time_point now) noexcept EXCLUDES(mutex_);
  std::optional<Idle> shrink_if_idle(Clock::time_point now) REQUIRES(mutex_);
  void note(const Idle& idle) noexcept EXCLUDES(mutex_);
  void begin_while(Clock::time_point now) REQUIRES(mutex_);

  const int size_;
  const bool by_quota_;
  const std::atomic<int>& consumers_waiting_;
  const std::shared_ptr<TuningLog> log_;
  // The arena has a place for each thread of the run, and none for oneTBB's own. So if a callable
  // uses oneTBB, the run's threads do that work, and no other thread has to be started.
  tbb::task_arena arena_;
  const bool has_arena_;

  mutable Mutex mutex_;
  CondVar ready_;
  Ring<Task> queue_ GUARDED_BY(mutex_);
  int most_ GUARDED_BY(mutex_);
  Clock::time_point asked_ GUARDED_BY(mutex_);
  Clock::time_point failed_ GUARDED_BY(mutex_);  // last failure to start a thread; not set: none
  int allowed_ GUARDED_BY(mutex_) = 1;
  int running_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool growing_ GUARDED_BY(mutex_) = false;  // one thread adds another
  CondVar grown_;                            // growing_ became false
  Clock::time_point while_began_ GUARDED_BY(mutex_);
  std::chrono::nanoseconds busy_ GUARDED_BY(mutex_){0};  // of all threads, since while_began_
  std::chrono::milliseconds while_ GUARDED_BY(mutex_){1000};
  bool shrunk_ GUARDED_BY(mutex_) = false;  // whether the last change removed a thread
  std::vector<Thread> threads_ GUARDED_BY(mutex_);
};

}  // namespace penstock
