// Time and threads of staging, real or simulated.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "pipeline/core/thread_annotations.h"

namespace penstock {

/// What actors wait on. Belongs to one mutex, like a condition variable.
class Signal {
 private:
  friend class RealClock;
  CondVar changed_;
};

/// Who goes first of those who could go at the same simulated moment.
struct Rank {
  int device = 0;
  int stream = 0;
  friend auto operator<=>(const Rank&, const Rank&) = default;
};

/// Everything in staging that waits, waits here. With the real clock these are threads and
/// condition variables; with a simulated one at most one actor runs at a time, host code takes no
/// time, and time goes on when all of them wait. Thread-safe.
class Clock {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  virtual ~Clock() = default;
  /// Nanoseconds since some moment; never goes back.
  virtual std::int64_t now() const noexcept = 0;
  /// Waits for the signal, or until `deadline`. False once that has passed. May return without
  /// cause.
  virtual bool wait(Mutex& mutex, Signal& signal, std::int64_t deadline = kNever)
      REQUIRES(mutex) = 0;
  /// Wakes all who wait for it.
  virtual void notify(Signal& signal) noexcept = 0;
  void sleep_until(std::int64_t deadline);

  /// The real clock, of which there is one.
  static Clock& real() noexcept;

  /// A running actor, as `start` makes it; destroying it joins.
  class Handle {
   public:
    virtual ~Handle() = default;
  };
  /// `body` must not throw. Throws Error{resource_exhausted} if no thread can be started.
  virtual std::unique_ptr<Handle> start(Rank rank, std::function<void()> body) = 0;
};

using Actor = std::unique_ptr<Clock::Handle>;

/// Simulated time. The constructing thread is an actor, with the lowest rank; it must destroy the
/// clock, after all others have ended. Threads that are no actors must not wait on it. Where every
/// actor waits for another, each wait throws Error{internal}.
class VirtualClock final : public Clock {
 public:
  VirtualClock();
  ~VirtualClock() override;
  std::int64_t now() const noexcept override EXCLUDES(mutex_);
  bool wait(Mutex& mutex, Signal& signal, std::int64_t deadline = kNever) override REQUIRES(mutex)
      EXCLUDES(mutex_);
  void notify(Signal& signal) noexcept override EXCLUDES(mutex_);
  Actor start(Rank rank, std::function<void()> body) override EXCLUDES(mutex_);
  /// Times that one actor was stopped and another went on.
  std::uint64_t switches() const noexcept EXCLUDES(mutex_);

 private:
  class VirtualHandle;
  struct Task {
    Rank rank;
    std::uint64_t sequence = 0;
    CondVar turn;
    bool ready = false;
    bool ended = false;
    bool timed_out = false;
    const Signal* on = nullptr;
    std::int64_t deadline = kNever;
    Signal finished;
  };
  static thread_local Task* self;

  void pass_on() REQUIRES(mutex_);
  void wait_for_turn(Task& task) REQUIRES(mutex_);
  bool wait_as(Task& task, const Signal& signal, std::int64_t deadline) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::int64_t now_ GUARDED_BY(mutex_) = 0;
  std::uint64_t started_ GUARDED_BY(mutex_) = 0;
  std::uint64_t switches_ GUARDED_BY(mutex_) = 0;
  bool dead_ GUARDED_BY(mutex_) = false;  // nobody could ever go on
  Task* running_ GUARDED_BY(mutex_) = nullptr;
  std::vector<Task*> tasks_ GUARDED_BY(mutex_);
  Task main_;
};

}  // namespace penstock
