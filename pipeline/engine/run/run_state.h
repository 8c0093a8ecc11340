// A run's plan and options, and its end.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include <penstock/error.h>
#include <penstock/iterator.h>
#include <penstock/plan.h>

#include "pipeline/core/begin_run.h"

namespace penstock {

/// A run's plan and options, which stay as they are, and whether the run was cancelled.
/// Thread-safe.
class RunState {
 public:
  /// Throws Error{invalid_argument} for options out of range, and Error{resource_exhausted} if the
  /// plan's least memory exceeds the budget or if too few threads can be started.
  RunState(Plan plan, const RunOptions& options, const RunSetting& setting);

  const Plan& plan() const noexcept { return plan_; }
  const RunOptions& options() const noexcept { return options_; }
  bool skips() const noexcept { return options_.on_error == OnError::skip; }
  /// Returns the share of the resulting batches that the run makes; if empty, it makes all.
  const std::optional<BatchShare>& share() const noexcept { return share_; }
  /// Returns null if the code that began the run does not control it.
  RunControl* control() const noexcept { return control_.get(); }
  /// Returns the most threads that compute.
  int threads() const noexcept { return threads_.compute; }
  /// Returns the most threads that may wait.
  int waiting_threads() const noexcept { return threads_.waiting; }

  void cancel() noexcept { cancelled_.store(true, std::memory_order_release); }
  /// Cancels the run because the engine has lost count of its work.
  void lose_count() noexcept {
    lost_count_.store(true, std::memory_order_release);
    cancel();
  }
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_acquire); }
  const std::atomic<bool>& cancelled_flag() const noexcept { return cancelled_; }
  /// Returns the error of `next` after the run was cancelled.
  Error why_stopped() const;

 private:
  struct Threads {
    int compute = 0;
    int waiting = 0;
  };
  static Threads threads_for(const RunOptions& options);

  const Plan plan_;
  const RunOptions options_;
  const std::optional<BatchShare> share_;
  const std::shared_ptr<RunControl> control_;
  const Threads threads_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> lost_count_{false};
};

}  // namespace penstock
