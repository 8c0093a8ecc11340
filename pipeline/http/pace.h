// The limits for requests, in flight and per second, and recent measurements of answers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <penstock/internal/thread_annotations.h>
#include <penstock/remote_files.h>

#include "pipeline/http/lateness.h"

namespace penstock::http {

/// Gives permits for requests, and measures requests. All readers share the rate of each server.
/// Thread-safe.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  /// A server's rate. It is never freed before the Pace.
  class Server;

  explicit Pace(std::size_t most);
  ~Pace();

  /// Returns the server of that origin (Url::origin).
  Server& server(std::string_view origin) EXCLUDES(mutex_);
  /// Waits until one more request may be sent to the server. Returns false at `deadline`.
  bool acquire(Server& server, Clock::time_point deadline) EXCLUDES(mutex_);
  void release() noexcept EXCLUDES(mutex_);

  /// Records a good answer. `waited_s` is the time since the request was sent, including every
  /// wait.
  void good(Server& server, double first_byte_s, double total_s, double waited_s,
            std::uint64_t bytes) noexcept EXCLUDES(mutex_);
  /// Records a good answer to a write.
  void wrote(Server& server, std::uint64_t bytes) noexcept EXCLUDES(mutex_);
  void throttled(Server& server, Clock::time_point sent,
                 std::optional<std::uint64_t> retry_after_s) noexcept EXCLUDES(mutex_);
  /// Returns the number of good answers of a server so far.
  std::uint64_t goods(const Server& server) const noexcept EXCLUDES(mutex_);
  void sent(bool again) noexcept EXCLUDES(mutex_);
  void came(std::uint64_t bytes, double waited_s) noexcept EXCLUDES(mutex_);
  /// Records the bytes that readers asked for: those requested from servers, and those that the
  /// cache on disk had.
  void needed(std::uint64_t bytes, std::uint64_t cached) noexcept EXCLUDES(mutex_);

  /// Returns the time at which an answer of this size is late, if its request is sent now.
  std::chrono::steady_clock::time_point late_at(std::uint64_t bytes) const noexcept
      EXCLUDES(mutex_);
  /// Returns true if a late request may be sent once more. The new request then counts as sent and
  /// has a permit. At most one in fifty requests is hedged, few at a time, and none while the
  /// server throttles.
  bool hedge(Server& server) noexcept EXCLUDES(mutex_);
  /// Takes note that the memory of a hedged request was freed.
  void hedge_ended() noexcept EXCLUDES(mutex_);

  /// Returns the bytes that arrive in the time of one answer: so many unneeded bytes are worth
  /// reading to save a request. Within [16 KiB, 1 MiB].
  std::uint64_t bytes_of_a_request() const noexcept EXCLUDES(mutex_);
  RemoteStats stats() const noexcept EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  const std::size_t most_;
  std::map<std::string, std::unique_ptr<Server>, std::less<>> servers_ GUARDED_BY(mutex_);
  std::size_t under_way_ GUARDED_BY(mutex_) = 0;
  std::size_t hedges_ GUARDED_BY(mutex_) = 0;  // whose memory is still in use
  Lateness lateness_ GUARDED_BY(mutex_);
  RemoteStats stats_ GUARDED_BY(mutex_);
};

}  // namespace penstock::http
