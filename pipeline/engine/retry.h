// Reads that failed and may succeed when they are done again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <penstock/iterator.h>

#include "pipeline/core/thread_annotations.h"

namespace penstock {

/// Says how often a read that failed with ErrorCode::unavailable is done again, and waits before
/// it: RunOptions::retry_ms, then twice as long each time, at most a second. Thread-safe.
class Retry {
 public:
  explicit Retry(const RunOptions& options);

  /// True if a read that has failed `tries` times with this error is to be done again. Waits first,
  /// unless told not to, because the caller is a compute thread.
  bool again(const Error& error, int tries, bool may_wait) EXCLUDES(mutex_);
  /// Nobody waits any more, and nothing is done again.
  void stop() noexcept EXCLUDES(mutex_);
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  const int most_;
  const std::chrono::milliseconds first_;
  std::atomic<std::uint64_t> count_{0};
  Mutex mutex_;
  CondVar stopped_changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace penstock
