// Waiting in staging code, and simulated time for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <penstock/internal/thread_annotations.h>
#include <penstock/time_source.h>

namespace penstock {

using Signal = TimeSource::Signal;
using Rank = TimeSource::Rank;
/// A running actor, as `TimeSource::start` makes it. Its destructor joins the thread.
using Actor = std::unique_ptr<TimeSource::Thread>;

/// `TimeSource::wait` with a mutex that the thread-safety analysis knows to be held.
inline bool wait_on(TimeSource& time, Mutex& mutex, Signal& signal,
                    std::int64_t deadline = TimeSource::kNever) REQUIRES(mutex) {
  return time.wait(WaitingMutex(mutex).native(), signal, deadline);
}

/// Simulated time. At most one actor runs at a time, host code takes no time, and time advances
/// when all actors wait. The constructing thread is an actor, with the lowest rank. It must destroy
/// the clock, after all other actors have ended. Threads that are not actors must not wait on it.
/// If every actor waits for another, each wait throws Error{internal}.
class VirtualClock final : public TimeSource {
 public:
  VirtualClock();
  ~VirtualClock() override;
  std::int64_t now() const noexcept override EXCLUDES(mutex_);
  bool wait(std::mutex& mutex, Signal& signal, std::int64_t deadline = kNever) override
      EXCLUDES(mutex_);
  void notify(Signal& signal) noexcept override EXCLUDES(mutex_);
  Actor start(Rank rank, std::function<void()> body) override EXCLUDES(mutex_);
  /// Returns how often one actor stopped and another one resumed.
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
  bool dead_ GUARDED_BY(mutex_) = false;  // no actor can ever resume
  Task* running_ GUARDED_BY(mutex_) = nullptr;
  std::vector<Task*> tasks_ GUARDED_BY(mutex_);
  Task main_;
};

}  // namespace penstock
