// The limit for concurrent requests, and recent measurements of a server's answers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <penstock/remote_files.h>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/io/http/lateness.h"

namespace penstock::http {

/// Decides the number of concurrent requests. Halves it when the server throttles, at most once a
/// second, and adds one for each `limit` good answers. Not thread-safe. Times are seconds from any
/// fixed origin.
class Throttle {
 public:
  explicit Throttle(std::size_t most) : most_(most), limit_(most) {}

  std::size_t most() const noexcept { return most_; }
  std::size_t limit() const noexcept { return limit_; }
  /// Returns the time before which nothing may be sent.
  double not_before() const noexcept { return not_before_; }
  void good() noexcept;
  /// `retry_after_s`: the server's Retry-After, if it sent one.
  void throttled(double now_s, std::optional<std::uint64_t> retry_after_s) noexcept;

 private:
  const std::size_t most_;
  std::size_t limit_;
  std::size_t good_ = 0;
  double halved_at_ = -1e9;
  double not_before_ = -1e9;
};

/// Gives permits for requests, and measures requests. Thread-safe.
class Pace {
 public:
  explicit Pace(std::size_t most) : throttle_(most) {}

  /// Waits until one more request may be sent. Returns false at `deadline`.
  bool acquire(std::chrono::steady_clock::time_point deadline) EXCLUDES(mutex_);
  void release() noexcept EXCLUDES(mutex_);

  /// Records a good answer. `waited_s` is the time since the request was sent, including every
  /// wait.
  void good(double first_byte_s, double total_s, double waited_s, std::uint64_t bytes) noexcept
      EXCLUDES(mutex_);
  /// Records a good answer to a write.
  void wrote(std::uint64_t bytes) noexcept EXCLUDES(mutex_);
  void throttled(std::optional<std::uint64_t> retry_after_s) noexcept EXCLUDES(mutex_);
  void sent(bool again) noexcept EXCLUDES(mutex_);
  void came(std::uint64_t bytes, double waited_s) noexcept EXCLUDES(mutex_);
  /// Records the bytes that readers asked for: those requested from servers, and those that the
  /// cache on disk had.
  void needed(std::uint64_t bytes, std::uint64_t cached) noexcept EXCLUDES(mutex_);

  /// Returns the time at which an answer of this size is late, if its request is sent now.
  std::chrono::steady_clock::time_point late_at(std::uint64_t bytes) const noexcept
      EXCLUDES(mutex_);
  /// Returns true if a late request may be sent once more. The new request then counts as sent and
  /// has a permit. At most one in fifty requests is hedged, few at a time, and none while a server
  /// throttles.
  bool hedge() noexcept EXCLUDES(mutex_);
  /// Takes note that the memory of a hedged request was freed.
  void hedge_ended() noexcept EXCLUDES(mutex_);

  /// Returns the bytes that arrive in the time of one answer: so many unneeded bytes are worth
  /// reading to save a request. Within [16 KiB, 1 MiB].
  std::uint64_t bytes_of_a_request() const noexcept EXCLUDES(mutex_);
  RemoteStats stats() const noexcept EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  Throttle throttle_ GUARDED_BY(mutex_);
  std::size_t under_way_ GUARDED_BY(mutex_) = 0;
  std::size_t hedges_ GUARDED_BY(mutex_) = 0;  // whose memory is still in use
  Lateness lateness_ GUARDED_BY(mutex_);
  RemoteStats stats_ GUARDED_BY(mutex_);
};

}  // namespace penstock::http
