// A pool of threads that grows while work waits for them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "pipeline/core/ring.h"
#include "pipeline/engine/make/pool_policy.h"

namespace penstock {

/// Threads that take work from one queue. The first one is started before any work is accepted, so
/// accepted work is always done. Whenever work has waited 2 ms for a thread, the pool asks its
/// policy for another one. If none can be started, work waits for the existing ones. A thread that
/// the policy takes away rests until there may be more again. Thread-safe.
class ThreadPool {
 public:
  /// Starts as many of `initial` threads as the system allows. Throws Error{resource_exhausted} if
  /// it allows none.
  explicit ThreadPool(std::unique_ptr<PoolPolicy> policy, int initial = 1);
  /// Waits until all work is done. Must not be called on its own threads.
  ~ThreadPool();

  /// Accepts `work`, which must not throw, and runs it once. If this throws, the work was not
  /// accepted.
  void submit(std::function<void()> work) EXCLUDES(mutex_);
  /// Does the same, but starts no thread. So it may be called with a lock held.
  void enqueue(std::function<void()> work) EXCLUDES(mutex_);
  /// Checks again whether work has waited too long. For a thread that waits for the result of such
  /// work.
  void look() EXCLUDES(mutex_);
  /// Returns how many threads may work at once; 0 if no work ever came.
  int threads() const EXCLUDES(mutex_);

 private:
  using Clock = PoolPolicy::Clock;
  struct Task {
    std::function<void()> work;
    Clock::time_point since;
  };
  void accept(Task task) REQUIRES(mutex_);
  PoolPolicy::Late find_late(Clock::time_point now) noexcept REQUIRES(mutex_);
  void grow(const PoolPolicy::Late& late) noexcept EXCLUDES(mutex_);
  Thread start() EXCLUDES(mutex_);
  void serve(std::size_t thread) noexcept EXCLUDES(mutex_);
  void warn() const noexcept;

  const std::unique_ptr<PoolPolicy> policy_;
  Mutex& mutex_ = policy_->mutex;
  CondVar ready_;
  Ring<Task> queue_ GUARDED_BY(mutex_);
  std::size_t allowed_ GUARDED_BY(mutex_) = 0;  // threads that may work at once
  std::size_t running_ GUARDED_BY(mutex_) = 0;
  bool used_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool growing_ GUARDED_BY(mutex_) = false;      // one thread adds another
  CondVar grown_;                                // growing_ became false
  Clock::time_point failed_ GUARDED_BY(mutex_);  // last failure to start a thread; not set: none
  std::vector<Thread> threads_ GUARDED_BY(mutex_);
};

}  // namespace penstock
