// One run of a plan: its threads, memory and counters.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include <penstock/iterator.h>
#include <penstock/plan.h>

#include "pipeline/core/begin_run.h"
#include "pipeline/core/waker.h"
#include "pipeline/engine/errors/retry.h"
#include "pipeline/engine/errors/skip_ledger.h"
#include "pipeline/engine/make/blocking_pool.h"
#include "pipeline/engine/make/workers.h"
#include "pipeline/engine/memory/memory.h"
#include "pipeline/engine/memory/starved.h"
#include "pipeline/engine/memory/step_back.h"
#include "pipeline/engine/plan/slot_plan.h"
#include "pipeline/engine/run/activity.h"
#include "pipeline/engine/run/remote_work.h"
#include "pipeline/engine/run/stage_services.h"
#include "pipeline/engine/run/tuning_log.h"
#include "pipeline/engine/segment/segment_list.h"
#include "pipeline/stage/segment.h"

namespace penstock {

/// The state that all parts of a run share. Thread-safe.
class Run {
 public:
  /// `open_workers` is called if the options name workers. Throws Error{resource_exhausted} if the
  /// plan's least memory exceeds the budget.
  Run(Plan plan, const RunOptions& options, const RunSetting& setting = {},
      OpenWorkers* open_workers = nullptr);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const RunOptions& options() const noexcept { return options_; }
  const Plan& plan() const noexcept { return plan_; }
  /// Returns the share of the resulting batches that the run makes; empty if it makes all.
  const std::optional<BatchShare>& share() const noexcept { return setting_.share; }
  /// Returns the most threads that compute.
  int threads() const noexcept { return threads_; }
  int readers() const { return blocking_->threads(); }
  Memory& memory() noexcept { return *memory_; }
  SlotPlan& slots() noexcept { return slots_; }
  /// Returns the waker that is notified of every event that an order segment may wait for.
  Waker& waker() noexcept { return *waker_; }
  Activity& activity() noexcept { return activity_; }
  StarvedLine& starved() noexcept { return starved_; }
  StepBack& step_back() noexcept { return step_back_; }
  SegmentList& segments() noexcept { return segments_; }
  SkipLedger& ledger() noexcept { return ledger_; }
  Retry& retry() noexcept { return retry_; }
  TuningLog& tuning() noexcept { return *tuning_; }
  StageServices& stages() noexcept { return stages_; }
  /// Returns null if the run has no workers in other processes.
  RemoteWork* remote() noexcept { return remote_.get(); }

  /// Opens the whole graph for an epoch. `first_counted` is false if the run resumes one that had
  /// already completed the first epoch.
  SegmentPtr open(std::uint64_t epoch, bool first_counted);
  void cancel() noexcept;
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_acquire); }
  const std::atomic<bool>& cancelled_flag() const noexcept { return cancelled_; }
  /// Returns the error of `next` after the run was cancelled.
  Error why_stopped() const;
  /// Runs `work` on the compute arena or, if `may_wait` is true, on a thread that may wait.
  void submit(std::function<void()> work, bool may_wait);
  /// Runs `work` on a thread that may wait, as soon as there is one. Starts no thread for it.
  void enqueue(std::function<void()> work) { blocking_->enqueue(std::move(work)); }
  /// Starts another thread if work has waited long enough for one. Called by threads that wait for
  /// results.
  void look();
  /// Writes bad elements to the quarantine and decisions to the log, which were noted with locks
  /// held. Call it without a lock.
  void write_down() noexcept {
    ledger_.write_down();
    tuning_->write_down();
  }
  /// Waits a moment for memory. Called on a thread of an order segment. Returns false if nothing is
  /// left that could return any, and if stepping back would not help.
  bool wait_for_memory(QuietTimer& timer);

 private:
  void stop() noexcept;
  void lose_count() noexcept;

  const Plan plan_;
  const RunOptions options_;
  const RunSetting setting_;
  const int threads_;
  const std::shared_ptr<Memory> memory_;
  const std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> lost_count_{false};
  Activity activity_;
  SkipLedger ledger_{options_};
  Retry retry_{options_};
  SlotPlan slots_{plan_, options_, memory_, waker_};
  SegmentList segments_;
  StarvedLine starved_{*this};
  StepBack step_back_{*this, setting_.alone};
  StageServices stages_{*this};
  const std::shared_ptr<TuningLog> tuning_ = std::make_shared<TuningLog>();
  std::unique_ptr<BlockingPool> blocking_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<RemoteWork> remote_;
};

}  // namespace penstock
