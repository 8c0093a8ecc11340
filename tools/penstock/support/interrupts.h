// SIGINT and SIGTERM as a call on a thread, not in a signal handler.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "tools/penstock/support/exit_code.h"

namespace penstock::tool {

/// While it lives, the first SIGINT or SIGTERM calls what `on_signal` set, from a thread of its
/// own; one that comes kInsists or more later restores the terminal and ends the process at once.
/// Sooner it is the same request: `timeout` sends each signal twice, to its child and to the group.
/// Signals carry no time stamp, and on a busy machine one may be read late. So a signal counts as
/// a second request only if a look (every 0.2 s) at kInsists or later found none pending.
/// What does not end by itself is ended: once `patience` has passed since the signal, in which the
/// process did not write much either, such as a checkpoint.
/// Until `on_signal` is called, while data are opened and scanned, there is nothing to save: any
/// signal ends the process at once. Make it before any other thread, so that all inherit the
/// blocked signals; one at a time.
class Interrupts {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kInsists{1};
  static constexpr std::chrono::seconds kPatience{20};

  /// `terminated`: the exit code for a SIGTERM that the program follows in its own way. `now` must
  /// not throw; the thread calls it once each time it looks for signals. Throws
  /// Error{resource_exhausted} if no thread can be started.
  explicit Interrupts(int terminated = kTerminated, std::chrono::seconds patience = kPatience,
                      Clock::time_point (*now)() = Clock::now);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// 0, SIGINT or SIGTERM: the first signal that came.
  int received() const noexcept { return received_.load(std::memory_order_acquire); }
  /// Replaces the callback; calls it at once if a signal has come before. Returns after a running
  /// callback has ended, so that what it uses may be destroyed.
  void on_signal(std::function<void()> callback);
  /// The exit code that goes with the signal received.
  int exit_code() const noexcept;

 private:
  void wait() noexcept;
  void look_whether_it_hangs(Clock::time_point now) noexcept;

  const int terminated_;
  const std::chrono::seconds patience_;
  Clock::time_point (*const now_)();
  std::atomic<int> received_{0};
  int signals_ = -1;  // signalfd
  int wake_ = -1;     // eventfd
  std::mutex mutex_;
  std::function<void()> callback_;  // guarded by mutex_
  bool begun_ = false;              // guarded by mutex_: on_signal was called
  // Of the thread:
  Clock::time_point patient_since_;
  std::uint64_t written_ = 0;  // bytes of the process, until then
  std::jthread thread_;
};

/// A signal calls `cancel` while this lives.
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
