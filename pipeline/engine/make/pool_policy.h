// The contract of a decision: how many threads does a pool need?
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include <penstock/internal/thread_annotations.h>

namespace penstock {

/// Decides when a pool gets another thread and when it needs one less, and says how its threads do
/// work.
class PoolPolicy {
 public:
  using Clock = std::chrono::steady_clock;

  /// Work that has waited for a thread for more than a moment.
  struct Late {
    std::size_t tasks = 0;  ///< 0: there is none
    std::chrono::nanoseconds waited{0};
  };
  /// Work that a thread has done.
  struct Done {
    std::size_t thread;  ///< the number of the thread, counted from 0
    Clock::time_point began;
    Clock::time_point ended;
    bool waited;  ///< the result of `run`
  };

  virtual ~PoolPolicy() = default;

  /// Return what the threads do, for an error's text, and their name for `top`.
  virtual const char* what() const noexcept = 0;
  virtual const char* name() const noexcept = 0;
  /// Runs `serve`, in which a new thread does work until the pool ends.
  virtual void enter(const std::function<void()>& serve) noexcept { serve(); }
  /// Does one piece of work. Returns true if it waited for a device.
  virtual bool run(const std::function<void()>& work) noexcept = 0;
  /// Returns false if there should be no more than these threads. Called before one is started, by
  /// one thread at a time.
  virtual bool may_start(std::size_t /*threads*/) { return true; }

  /// The mutex of the pool and of this policy's state. The functions below are called while it is
  /// held. `threads` may work at once.
  Mutex mutex;
  /// Makes room for the state of so many threads.
  virtual void reserve(std::size_t /*threads*/) {}
  /// Returns true if late work is a reason for another thread.
  virtual bool wants_another(std::size_t threads) noexcept = 0;
  /// Notes that another thread was added, because of this work.
  virtual void grown(std::size_t threads, const Late& late) noexcept = 0;
  virtual void began(std::size_t /*thread*/, Clock::time_point /*now*/) noexcept {}
  /// Returns how many threads may work at once from now on: no more than `threads`.
  virtual std::size_t ended(const Done& done, std::size_t threads) noexcept = 0;
};

}  // namespace penstock
