// The differences for a trainer whose variables are on parameter servers.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <penstock/towers/trainer.h>

#include "towers/servers/served_strategy.h"
#include "towers/servers/stop_gate.h"

namespace penstock::towers {

/// A process's part in the job: its beginning, stops and end. Used by the same threads as the
/// trainer.
class ServedPart {
 public:
  /// `strategy` and `job` must outlive it.
  ServedPart(ServedStrategy& strategy, const ServedJob& job) : strategy_(strategy), job_(job) {}

  /// Begins or enters the run; returns the position of this process's input. `batches` is the
  /// number of batches of each tower in all; 0: unknown. `kept` is the checkpoint's position, if
  /// there is one; for the chief.
  std::string start(const TrainOptions& options, std::uint64_t planned_steps, std::uint64_t batches,
                    const std::optional<std::string>& kept);

  bool is_chief() const noexcept { return job_.process == 0; }
  /// Returns the updates so far, as the stops of this process count them. In deterministic jobs
  /// this process's own pushes count, because all processes have the same stops only then.
  std::uint64_t step() const { return deterministic_ ? strategy_.drawn() : strategy_.step(); }
  /// True if the run has made all its updates, or needs no more pushes of this process.
  bool finished() const {
    return strategy_.finished() || (deterministic_ && max_steps_ > 0 && step() >= max_steps_);
  }
  /// Takes batches until step `until`, unless `stopped`; `make` computes each of them.
  void train(StopGate& gate, Feed& feed, int tower, int number, std::uint64_t until,
             const std::atomic<bool>& stopped,
             const std::function<void(StagedBatch&, std::uint64_t step)>& make);
  /// True if processes have finished since the last `fetch`. They will not repeat work that no
  /// checkpoint contains. For a chief with checkpoints, and not in deterministic jobs, which need
  /// all processes. Asks the servers once a second at most. Called by one thread at a time.
  bool others_left();
  /// Reports the position of the input, at a stop.
  void told(const Feed& feed) { strategy_.keep_feed(feed.save()); }
  /// Copies the servers' values to the chief's variables. Returns the position for a checkpoint.
  std::string fetch();
  /// Call it when this process has no batch left, or the run is finished. The chief waits for the
  /// others, unless `stopped`, and calls `look` meanwhile.
  void wait_for_others(const std::function<bool()>& stopped, const std::function<void()>& look);
  /// Tells the servers that the run has ended. The chief calls it when everything is saved.
  void end(const Status& why) { strategy_.end(why); }
  /// Call it when `error` ended the run here. Throws the loss that came before it, if there was
  /// one.
  void throw_first_loss(const Error& error) const;
  /// Sets the fields that servers know.
  void report(TrainResult& result) const;

 private:
  ServedStrategy& strategy_;
  const ServedJob& job_;
  void tell_of_waiting() const;
  bool all_made(const ServerFigures& figures) const noexcept {
    return finished() || (max_steps_ > 0 && figures.step >= max_steps_);
  }

  std::uint64_t max_steps_ = 0, batches_ = 0;
  bool deterministic_ = false;
  bool saves_ = false;
  ServerFigures last_{};
  // How long others still trained when the chief had no batch left.
  std::chrono::steady_clock::duration trained_by_others_{};
  Pushes pushes_{};  // by each replica, at the last fetch
  std::chrono::steady_clock::time_point asked_{};
  // Processes that had left: when the servers were last asked, and at the last fetch.
  int left_ = 0, left_kept_ = 0;
};

}  // namespace penstock::towers
