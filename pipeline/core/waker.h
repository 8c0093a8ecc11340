// A signal that is never lost, for conditions that live under other locks.
#pragma once

#include <atomic>
#include <cstdint>

#include "pipeline/core/thread_annotations.h"

namespace penstock {

/// Counts events. A waiter reads the count, looks at its conditions, and waits until the count has
/// moved on:
///
///     for (std::uint64_t seen = waker.count(); !ready(); seen = waker.count()) waker.wait(seen);
///
/// Thread-safe.
class Waker {
 public:
  std::uint64_t count() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return count_;
  }
  void wait(std::uint64_t seen) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (count_ == seen) changed_.wait(mutex_);
  }
  void notify() EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }
  /// The same, but only if it is worth a wake-up or somebody can't go on without.
  void notify_if(bool worthwhile) EXCLUDES(mutex_) {
    if (worthwhile || urgent.load(std::memory_order_seq_cst) > 0) notify();
  }
  /// Those who can't go on before the waiters have done something.
  std::atomic<int> urgent{0};

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::uint64_t count_ GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock
