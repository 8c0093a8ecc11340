// A signal that is never lost, for conditions that other locks guard.
#pragma once

#include <atomic>
#include <cstdint>

#include <penstock/internal/thread_annotations.h>

namespace penstock {

/// Counts events. A waiter reads the count, checks its conditions, and waits until the count
/// changes:
///
///     for (std::uint64_t seen = waker.count(); !ready(); seen = waker.count()) waker.wait(seen);
///
/// Thread-safe.
class Waker {
 public:
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_seq_cst); }
  const std::atomic<std::uint64_t>& events() const noexcept { return count_; }
  void wait(std::uint64_t seen) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (count() == seen) changed_.wait(mutex_);
  }
  void notify() EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }
  /// Notifies only if a wake-up is worthwhile or a thread cannot continue without it (`urgent`).
  void notify_if(bool worthwhile) EXCLUDES(mutex_) {
    if (worthwhile || urgent.load(std::memory_order_seq_cst) > 0) notify();
  }
  /// The number of threads that cannot continue before the waiters have acted.
  std::atomic<int> urgent{0};

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::atomic<std::uint64_t> count_{0};  // changed under the mutex
};

}  // namespace penstock
