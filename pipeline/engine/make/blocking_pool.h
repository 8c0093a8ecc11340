// Threads for work that may wait.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "pipeline/core/ring.h"
#include "pipeline/engine/run/tuning_log.h"

namespace penstock {

/// A pool of threads for work that may wait. It starts another thread, up to a limit, whenever work
/// has waited for one for more than a moment. Beyond a few threads it does so only while the
/// existing ones really wait, and do not just lack a CPU. So a slow device gets many requests at
/// once, and a fast one gets no threads that it does not need. Thread-safe.
class BlockingPool {
 public:
  /// Starts with as many of `initial` threads as the system allows. Throws
  /// Error{resource_exhausted} if it allows none.
  BlockingPool(int initial, int limit, std::shared_ptr<TuningLog> log);
  ~BlockingPool();
  /// Accepts `work`, which must not throw, and runs it once. If this throws, the work was not
  /// accepted.
  void submit(std::function<void()> work) EXCLUDES(mutex_);
  /// Does the same, but starts no thread. So it may be called with a lock held.
  void enqueue(std::function<void()> work) EXCLUDES(mutex_);
  /// Returns the number of threads; 0 if no work was ever submitted.
  int threads() const EXCLUDES(mutex_);
  /// Checks again whether work has waited too long. For a thread that waits for the result of such
  /// work.
  void look() EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;

  struct Task {
    std::function<void()> work;
    Clock::time_point since;
  };
  /// Work that has waited for a thread for more than a moment.
  struct Late {
    std::size_t tasks = 0;  // 0: no thread is to be started
    std::chrono::nanoseconds waited{0};
  };
  void accept(Task task) REQUIRES(mutex_);
  Late find_late(Clock::time_point now) noexcept REQUIRES(mutex_);
  void grow(const Late& late) noexcept EXCLUDES(mutex_);
  bool may_grow() EXCLUDES(mutex_);
  void start() EXCLUDES(mutex_);
  void note(const Late& late) EXCLUDES(mutex_);
  void serve(std::size_t thread) noexcept EXCLUDES(mutex_);

  struct Working {
    pid_t thread = 0;
    Clock::time_point since{};  // not set: it has no work
  };

  const std::shared_ptr<TuningLog> log_;
  mutable Mutex mutex_;
  std::size_t limit_ GUARDED_BY(mutex_);
  // The recent share of work that waited for something.
  double waiting_ GUARDED_BY(mutex_) = 0;
  CondVar ready_;
  Ring<Task> queue_ GUARDED_BY(mutex_);
  std::size_t idle_ GUARDED_BY(mutex_) = 0;  // threads without work; they may not know that yet
  bool used_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool growing_ GUARDED_BY(mutex_) = false;          // one thread looks whether to start another
  CondVar grown_;                                    // growing_ became false
  std::size_t noted_ GUARDED_BY(mutex_) = 1;         // threads, when their number was last logged
  std::vector<Working> working_ GUARDED_BY(mutex_);  // one entry for each thread
  std::vector<Thread> threads_ GUARDED_BY(mutex_);
};

}  // namespace penstock
