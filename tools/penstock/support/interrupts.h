// SIGINT and SIGTERM as a call on a thread, instead of a signal handler.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include <penstock/internal/start_thread.h>
#include <penstock/internal/thread_annotations.h>

#include "tools/penstock/support/exit_code.h"

namespace penstock::tool {

/// Handles SIGINT and SIGTERM during its lifetime. The first signal calls the callback that
/// `on_signal` has set, on a separate thread. A second signal, kInsists or more later, restores the
/// terminal and ends the process at once. An earlier second signal counts as the same request,
/// because `timeout` sends each signal twice: to its child and to the group. Signals carry no time
/// stamp, and on a busy machine one may be read late. So a signal counts as a second request only
/// if a look (every 0.2 s) at kInsists or later found none pending.
///
/// If the process does not end by itself, it is ended when `patience` has passed since the signal.
/// The time starts again while the process writes much to disks or servers, for example a
/// checkpoint.
///
/// Until `on_signal` is called, data are being opened and scanned, and there is nothing to save. So
/// any signal then ends the process at once. Create this object before any other thread, so that
/// all threads inherit the blocked signals. There can be only one at a time.
class Interrupts {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kInsists{1};
  static constexpr std::chrono::seconds kPatience{20};

  /// `terminated`: the exit code for a SIGTERM to which the program responds in its own way. `now`
  /// must not throw; the thread calls it once each time it looks for signals. Throws
  /// Error{resource_exhausted} if no thread can be started.
  explicit Interrupts(int terminated = kTerminated, std::chrono::seconds patience = kPatience,
                      Clock::time_point (*now)() = Clock::now);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Returns the first signal that came: SIGINT or SIGTERM; 0 if none came.
  int received() const noexcept { return received_.load(std::memory_order_acquire); }
  /// Replaces the callback, and calls it at once if a signal came earlier. Waits until a running
  /// callback has ended, so that the objects it uses may be destroyed.
  void on_signal(std::function<void()> callback) EXCLUDES(mutex_);
  /// Returns the exit code for the received signal.
  int exit_code() const noexcept;

 private:
  void wait() noexcept EXCLUDES(mutex_);
  void look_whether_it_hangs(Clock::time_point now) noexcept;

  const int terminated_;
  const std::chrono::seconds patience_;
  Clock::time_point (*const now_)();
  std::atomic<int> received_{0};
  int signals_ = -1;  // signalfd
  int wake_ = -1;     // eventfd
  SlowMutex mutex_;   // held while the callback runs, for which `on_signal` waits
  std::function<void()> callback_ GUARDED_BY(mutex_);
  bool begun_ GUARDED_BY(mutex_) = false;  // on_signal was called
  // Used by the thread only:
  Clock::time_point patient_since_;
  std::uint64_t written_ = 0;  // bytes that the process had written by then
  Thread thread_;
};

/// Sets a callback for signals during its lifetime.
class Cancellation {
 public:
  Cancellation(Interrupts& interrupts, std::function<void()> cancel) : interrupts_(interrupts) {
    interrupts_.on_signal(std::move(cancel));
  }
  ~Cancellation() { interrupts_.on_signal(nullptr); }
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

 private:
  Interrupts& interrupts_;
};

}  // namespace penstock::tool
