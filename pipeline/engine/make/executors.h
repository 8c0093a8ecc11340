// The threads of a run.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "pipeline/engine/make/compute_policy.h"
#include "pipeline/engine/make/read_policy.h"
#include "pipeline/engine/make/thread_pool.h"
#include "pipeline/engine/memory/step_back.h"
#include "pipeline/engine/run/run_state.h"

namespace penstock {

/// The threads that make a run's elements: those that compute, and those that may wait.
/// Thread-safe.
class Executors {
 public:
  /// `consumers_waiting` must outlive all work.
  Executors(const RunState& state, const std::atomic<int>& consumers_waiting,
            const StepBack& step_back, const std::shared_ptr<TuningLog>& log)
      : step_back_(step_back),
        workers_(std::make_unique<ComputePolicy>(state.threads(), state.options().threads == 0,
                                                 consumers_waiting, log)),
        readers_(std::make_unique<ReadPolicy>(state.waiting_threads(), log),
                 state.options().io_threads > 0 ? state.waiting_threads() : 1) {}

  /// Runs `work`, which must not throw, on the compute arena or, if `may_wait` is true, on a thread
  /// that may wait. While elements are made one at a time, it runs on the calling thread.
  void submit(std::function<void()> work, bool may_wait) {
    if (step_back_.alone()) {
      work();
    } else if (may_wait) {
      readers_.submit(std::move(work));
    } else {
      workers_.submit(std::move(work));
    }
  }
  /// Runs `work` on a thread that may wait, as soon as there is one. Starts no thread for it.
  void enqueue(std::function<void()> work) { readers_.enqueue(std::move(work)); }
  /// Starts another thread if work has waited long enough for one. Called by threads that wait for
  /// results.
  void look() {
    workers_.look();
    readers_.look();
  }
  /// Returns the number of threads that may wait.
  int readers() const { return readers_.threads(); }

 private:
  const StepBack& step_back_;
  ThreadPool workers_;
  ThreadPool readers_;  // destroyed first: its work submits to the others
};

}  // namespace penstock
