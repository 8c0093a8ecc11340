// Threads for work that waits.
#pragma once

#include <sys/types.h>

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

/// Threads for work that may wait. There is one more, up to a limit, whenever work has waited
/// longer than a moment for one; beyond a few only while those that there are do wait, rather than
/// lack a CPU. So a slow device gets depth, and a fast one no threads it does not need.
/// Thread-safe.
class BlockingPool {
 public:
  /// Begins with as many of `initial` threads as can be started. Throws Error{resource_exhausted}
  /// if there is none.
  BlockingPool(int initial, int limit, std::shared_ptr<TuningLog> log);
  ~BlockingPool();
  /// Takes `work`, which must not throw, and does it once; or throws, and does not take it.
  void submit(std::function<void()> work) EXCLUDES(mutex_);
  /// Threads that there are for such work; 0 if there never was any.
  int threads() const EXCLUDES(mutex_);
  /// Looks again whether work has waited too long: for who waits for its result.
  void look() EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;

  void start() REQUIRES(mutex_);
  void serve(std::size_t thread) noexcept EXCLUDES(mutex_);
  void grow_if_late(Clock::time_point now) noexcept REQUIRES(mutex_);
  std::size_t stuck(Clock::time_point now) const noexcept REQUIRES(mutex_);
  void note(std::chrono::nanoseconds waited) REQUIRES(mutex_);

  struct Task {
    std::function<void()> work;
    Clock::time_point since;
  };
  struct Working {
    pid_t thread = 0;
    Clock::time_point since{};  // none: it has no work
  };

  const std::shared_ptr<TuningLog> log_;
  mutable Mutex mutex_;
  std::size_t limit_ GUARDED_BY(mutex_);
  double waiting_ GUARDED_BY(mutex_) =
      0;  // how much of the work, of late, has waited for something
  CondVar ready_;
  Ring<Task> queue_ GUARDED_BY(mutex_);
  std::size_t idle_ GUARDED_BY(mutex_) = 0;  // threads without work, though they may not know yet
  bool used_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::size_t noted_ GUARDED_BY(mutex_) = 1;         // threads, when that was last said
  std::vector<Working> working_ GUARDED_BY(mutex_);  // of each thread
  std::vector<std::jthread> threads_ GUARDED_BY(mutex_);
};

}  // namespace penstock
