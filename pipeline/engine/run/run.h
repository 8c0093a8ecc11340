// One run of a plan: its parts, in the order in which they depend on each other.
#pragma once

#include <memory>

#include <penstock/iterator.h>
#include <penstock/plan.h>

#include "pipeline/core/begin_run.h"
#include "pipeline/core/waker.h"
#include "pipeline/engine/errors/retry.h"
#include "pipeline/engine/errors/skip_ledger.h"
#include "pipeline/engine/make/executors.h"
#include "pipeline/engine/memory/memory.h"
#include "pipeline/engine/memory/memory_line.h"
#include "pipeline/engine/memory/step_back.h"
#include "pipeline/engine/plan/slot_plan.h"
#include "pipeline/engine/run/activity.h"
#include "pipeline/engine/run/remote_work.h"
#include "pipeline/engine/run/run_state.h"
#include "pipeline/engine/run/stage_services.h"
#include "pipeline/engine/run/tuning_log.h"
#include "pipeline/engine/segment/segment_factory.h"
#include "pipeline/engine/segment/segment_list.h"

namespace penstock {

/// Owns the parts of a run, and gives each of them those that it uses. Thread-safe.
class Run {
 public:
  /// `open_workers` is called if the options name workers. Throws what RunState does.
  Run(Plan plan, const RunOptions& options, const RunSetting& setting = {},
      OpenWorkers* open_workers = nullptr);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const RunState& state() const noexcept { return state_; }
  Memory& memory() noexcept { return *memory_; }
  Activity& activity() noexcept { return activity_; }
  StepBack& step_back() noexcept { return step_back_; }
  SegmentList& segments() noexcept { return segments_; }
  SkipLedger& ledger() noexcept { return ledger_; }
  Retry& retry() noexcept { return retry_; }
  TuningLog& tuning() noexcept { return *tuning_; }
  Executors& executors() noexcept { return *executors_; }
  StageServices& stages() noexcept { return stages_; }
  /// Returns null if the run has no workers in other processes.
  RemoteWork* remote() noexcept { return remote_.get(); }

  void cancel() noexcept;

 private:
  void stop() noexcept;
  void lose_count() noexcept;

  RunState state_;
  const std::shared_ptr<Memory> memory_;
  const std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();
  const std::shared_ptr<TuningLog> tuning_ = std::make_shared<TuningLog>();
  SkipLedger ledger_;
  Retry retry_;
  SlotPlan slots_;
  SegmentList segments_;
  Activity activity_;
  StepBack step_back_;
  std::unique_ptr<Executors> executors_;
  MemoryLine line_;
  std::unique_ptr<RemoteWork> remote_;
  SegmentFactory factory_;
  StageServices stages_;
};

}  // namespace penstock
