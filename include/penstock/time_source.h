// Time and threads of devices and staging, real or simulated.
#pragma once

#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>

namespace penstock {

/// The clock and the threads of staging, which does all its waiting here. With `real()` these are
/// threads and condition variables. Another source may simulate time, so that tests assert waits to
/// the nanosecond. Thread-safe.
class TimeSource {
 public:
  /// A deadline that never passes.
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// A condition that threads wait for. It belongs to one mutex, like a condition variable. Sources
  /// other than the real one distinguish signals by their addresses.
  class Signal {
   public:
    Signal() = default;
    Signal(const Signal&) = delete;
    Signal& operator=(const Signal&) = delete;

   private:
    friend class RealTime;
    std::condition_variable changed_;
  };

  /// The order of threads that could run at the same simulated moment.
  struct Rank {
    int device = 0;  ///< compared first
    int stream = 0;  ///< compared second
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };

  /// A running thread, as `start` makes it. Destruction joins it.
  class Thread {
   public:
    virtual ~Thread() = default;
  };

  virtual ~TimeSource() = default;

  /// Returns nanoseconds since some moment; it never decreases.
  virtual std::int64_t now() const noexcept = 0;
  /// Waits for the signal, or until `deadline`. Returns false once that has passed. May return
  /// without cause. REQUIRES: the caller holds the mutex, which is free during the wait.
  virtual bool wait(std::mutex& mutex, Signal& signal, std::int64_t deadline = kNever) = 0;
  /// Wakes all threads that wait for the signal.
  virtual void notify(Signal& signal) noexcept = 0;
  /// Starts a thread that runs `body`, which must not throw. Throws Error{resource_exhausted} if no
  /// thread can be started.
  virtual std::unique_ptr<Thread> start(Rank rank, std::function<void()> body) = 0;
  /// Waits until `deadline`.
  void sleep_until(std::int64_t deadline);

  /// Returns the steady clock and the system's threads, a single object.
  static TimeSource& real() noexcept;
};

}  // namespace penstock
