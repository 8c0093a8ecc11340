// The loop of a trainer whose variables are on parameter servers.
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
#include "towers/train/train_loop.h"

namespace penstock::towers {

/// A process's part in the job. Its stops fall on the steps of the whole job.
class ServedLoop final : public TrainLoop {
 public:
  ServedLoop(const Parts& parts, std::unique_ptr<ServedStrategy> strategy);

  std::string start(const std::optional<std::string>& found, std::uint64_t planned_steps,
                    std::uint64_t batches) override;
  bool remote() const noexcept override { return true; }
  /// Returns the updates so far, as the stops of this process count them. In deterministic jobs
  /// this process's own pushes count, because all processes have the same stops only then.
  std::uint64_t step() const override {
    return deterministic_ ? strategy_.drawn() : strategy_.step();
  }
  /// True if the run has made all its updates, or needs no more pushes of this process.
  bool finished() const override {
    return strategy_.finished() || (deterministic_ && TrainLoop::finished());
  }
  // Towers stop at any step.
  bool is_due(std::uint64_t every, std::uint64_t last) const override {
    return step() / every > last / every;
  }
  /// True if processes have finished since the last `fetch`. They will not repeat work that no
  /// checkpoint contains. For a chief with checkpoints, and not in deterministic jobs, which need
  /// all processes. Asks the servers once a second at most. Called by one thread at a time.
  bool wants_checkpoint() override;

  void begin(Feed& feed, std::uint64_t epoch, std::uint64_t until) override;
  void train(int tower, const MakeStep& make) override;
  void left(int /*tower*/) override {}
  /// Reports the position of the input. Servers have the values that are not trained.
  void settle() override { strategy_.keep_feed(feed_->save()); }

  /// Copies the servers' values to the chief's variables. Returns the position for a checkpoint.
  std::string fetch(const Feed& feed) override;
  /// Call it when this process has no batch left, or the run is finished. The chief waits for the
  /// others, unless it is stopped.
  bool wait_for_others(const std::function<void()>& look) override;
  /// Tells the servers that the run has ended, if this is the chief.
  void end() override;
  void throw_first_loss(const Error& error) const override;
  void report(TrainResult& result) const override;

 private:
  bool is_chief() const noexcept { return job_.process == 0; }
  void wait_as_chief(const std::function<void()>& look);
  void tell_of_waiting() const;
  bool all_made(const ServerFigures& figures) const {
    const std::uint64_t most = parts_.options.max_steps;
    return finished() || (most > 0 && figures.step >= most);
  }

  ServedStrategy& strategy_;
  const ServedJob& job_;
  const bool deterministic_;
  const bool saves_;
  std::uint64_t batches_ = 0;  // of each tower in all; 0: unknown
  Feed* feed_ = nullptr;
  std::uint64_t until_ = 0;
  std::optional<StopGate> gate_;
  ServerFigures last_{};
  // How long others still trained when the chief had no batch left.
  std::chrono::steady_clock::duration trained_by_others_{};
  Pushes pushes_{};  // by each replica, at the last fetch
  std::chrono::steady_clock::time_point asked_{};
  // Processes that had left: when the servers were last asked, and at the last fetch.
  int left_ = 0, left_kept_ = 0;
};

}  // namespace penstock::towers
