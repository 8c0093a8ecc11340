// Repeats reads that failed and may succeed the next time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <penstock/internal/thread_annotations.h>
#include <penstock/iterator.h>

namespace penstock {

/// Decides how often a read that failed with ErrorCode::unavailable is repeated, and waits before
/// each try: RunOptions::retry_ms at first, then twice as long each time, at most one second.
/// Thread-safe.
class Retry {
 public:
  explicit Retry(const RunOptions& options);

  /// True if a read that has failed `tries` times with this error is to be repeated. Waits first,
  /// unless `may_wait` is false because the caller is a compute thread.
  bool again(const Error& error, int tries, bool may_wait) EXCLUDES(mutex_);
  /// Ends all waits. From now on no read is repeated.
  void stop() noexcept EXCLUDES(mutex_);
  /// Adds reads that another process has repeated for this run.
  void add(std::uint64_t reads) noexcept { count_.fetch_add(reads, std::memory_order_relaxed); }
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
