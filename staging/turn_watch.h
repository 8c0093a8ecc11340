// Towers that wait for another tower's turn.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <penstock/internal/thread_annotations.h>

namespace penstock {

/// The feed's own thread waits for a tower that has no room for its next batch.
struct FeederWait {
  static constexpr int kNobody = -1;
  int tower = kNobody;  ///< among the towers of this process
  std::int64_t since = 0;
};

/// A watch on the waits of towers. A tower may wait for ever if another one takes no batch, because
/// the feed's thread then waits, too. The watch ends such a wait. Thread-safe.
class TurnWatch {
 public:
  explicit TurnWatch(double watchdog_s)
      : watchdog_ns_(static_cast<std::int64_t>(watchdog_s * 1e9)) {}

  void set(const FeederWait& wait) EXCLUDES(mutex_);
  FeederWait get() const EXCLUDES(mutex_);

  /// Returns when to look at a wait that began at `since`.
  std::int64_t first_look(std::int64_t since) const noexcept;
  /// Looks at the wait of the tower called `waiting` for the one called `awaited`. Both the tower
  /// and the feed's thread have waited since `since`. Returns when to look again. Logs one warning.
  /// Throws Error{no_progress} if the watchdog's time has passed. `remedy` ends its message.
  std::int64_t look(const std::string& waiting, const std::string& awaited, std::int64_t since,
                    std::int64_t now, const char* remedy);

 private:
  const std::int64_t watchdog_ns_;
  std::atomic<bool> warned_{false};
  mutable Mutex mutex_;
  FeederWait wait_ GUARDED_BY(mutex_);
};

}  // namespace penstock
