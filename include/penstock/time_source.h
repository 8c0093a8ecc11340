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

/// Whatever waits in staging waits here: with `real()` these are threads and condition variables.
/// Another source may simulate time, so that tests assert waits to the nanosecond. Thread-safe.
class TimeSource {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// What threads wait on. Belongs to one mutex, like a condition variable. Sources other than the
  /// real one tell signals by their addresses.
  class Signal {
   public:
    Signal() = default;
    Signal(const Signal&) = delete;
    Signal& operator=(const Signal&) = delete;

   private:
    friend class RealTime;
    std::condition_variable changed_;
  };

  /// Who goes first of those who could go at the same simulated moment.
  struct Rank {
    int device = 0;
    int stream = 0;
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };

  /// A running thread, as `start` makes it; destroying it joins.
  class Thread {
   public:
    virtual ~Thread() = default;
  };

  virtual ~TimeSource() = default;
  /// Nanoseconds since some moment; never goes back.
  virtual std::int64_t now() const noexcept = 0;
  /// Waits for the signal, or until `deadline`. False once that has passed. May return without
  /// cause. REQUIRES: the caller holds the mutex, which is free while it waits.
  virtual bool wait(std::mutex& mutex, Signal& signal, std::int64_t deadline = kNever) = 0;
  /// Wakes all who wait for it.
  virtual void notify(Signal& signal) noexcept = 0;
  /// `body` must not throw. Throws Error{resource_exhausted} if no thread can be started.
  virtual std::unique_ptr<Thread> start(Rank rank, std::function<void()> body) = 0;
  void sleep_until(std::int64_t deadline);

  /// The steady clock and the system's threads, of which there is one.
  static TimeSource& real() noexcept;
};

}  // namespace penstock
