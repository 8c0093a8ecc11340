// The losses of steps, put together from the towers' parts.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include <penstock/internal/thread_annotations.h>
#include <penstock/towers/trainer.h>

namespace penstock::towers {

/// A mean loss above this means divergence. The square of a gradient of that size is close to the
/// limit of f32.
inline constexpr double kMostLoss = 1e18;

/// A log that collects the losses of each tower, and reports a step once every tower has added its
/// part. Thread-safe.
class StepLog {
 public:
  /// `parts` is the number of this process's towers that make a step together. `peers` are the
  /// other processes that make it with them; null if there are none.
  StepLog(int parts, TrainObserver& observer, const UpdateOptions& update, Peers* peers)
      : parts_(parts),
        observer_(observer),
        schedule_(update.schedule),
        stop_if_diverged_(update.stop_if_diverged),
        peers_(peers) {}

  void begin(std::uint64_t first_step, std::uint64_t epoch) EXCLUDES(mutex_);
  void add(std::uint64_t step, const Loss& loss) EXCLUDES(mutex_);
  /// Adds the next step of a tower that makes steps of its own. REQUIRES: parts is 1.
  void add(const Loss& loss) EXCLUDES(mutex_);
  /// Calls one of the two `add` functions: towers make steps `together`, or each makes its own. If
  /// a loss is not a number, or above kMostLoss, throws Error{diverged}, or logs the first one.
  void add_checked(std::uint64_t step, const Loss& loss, bool together) EXCLUDES(mutex_);

  /// Sets the result's losses, elements and diverged steps.
  void report(TrainResult& result) const EXCLUDES(mutex_);

 private:
  void add_locked(std::uint64_t step, const Loss& loss) REQUIRES(mutex_);
  /// Returns the sum over all processes.
  Loss total_of(const Loss& mine) const;

  struct Sum {
    int parts = 0;
    Loss loss{};
  };

  const int parts_;
  TrainObserver& observer_;
  const Schedule schedule_;
  const bool stop_if_diverged_;
  std::atomic<bool> warned_{false};  // that the loss diverged
  Peers* const peers_;
  // Held while processes add up a step's losses and the observer is told of it, so that both go in
  // the order of steps.
  mutable SlowMutex mutex_;
  std::deque<Sum> open_ GUARDED_BY(mutex_);  // steps from first_ on
  std::uint64_t first_ GUARDED_BY(mutex_) = 0;
  std::uint64_t epoch_ GUARDED_BY(mutex_) = 0;
  std::uint64_t elements_ GUARDED_BY(mutex_) = 0;
  std::uint64_t diverged_ GUARDED_BY(mutex_) = 0;
  std::vector<float> losses_ GUARDED_BY(mutex_);
};

}  // namespace penstock::towers
