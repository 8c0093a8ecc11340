// How the towers of a process make their steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <penstock/feed.h>
#include <penstock/towers/strategy.h>
#include <penstock/towers/trainer.h>

#include "towers/train/tower_set.h"

namespace penstock::towers {

/// A strategy, and the steps that a process's towers make with it, from one stop of the trainer to
/// the next. The towers' threads call `train` and `left`; the trainer's thread calls the rest,
/// while no tower trains.
class TrainLoop {
 public:
  /// The parts of the trainer that loops use. They outlive the loop.
  struct Parts {
    TowerSet& towers;
    const TrainOptions& options;
    const std::atomic<bool>& stopped;
  };
  using MakeStep = std::function<void(StagedBatch& batch, std::uint64_t step)>;

  TrainLoop(const Parts& parts, StrategyPtr strategy)
      : parts_(parts), strategy_(std::move(strategy)) {}
  virtual ~TrainLoop() = default;
  TrainLoop(const TrainLoop&) = delete;
  TrainLoop& operator=(const TrainLoop&) = delete;

  Strategy& strategy() const noexcept { return *strategy_; }

  /// Begins or enters the run. Returns the position of this process's input. `found` is that of a
  /// checkpoint, if there is one, and `batches` is the number of batches of each tower in all; 0:
  /// unknown.
  virtual std::string start(const std::optional<std::string>& found, std::uint64_t planned_steps,
                            std::uint64_t batches);
  /// True if the feed serves the towers in turn. `asked`: the options say so.
  virtual bool in_turn(bool asked) const { return asked; }
  /// True if the variables are elsewhere, and other processes train on them, too. They are fetched
  /// before evaluations and checkpoints, and the last of these waits for the others.
  virtual bool remote() const noexcept { return false; }

  /// Returns the number of updates so far, as stops count them.
  virtual std::uint64_t step() const { return strategy_->step(); }
  /// True if all updates were made.
  virtual bool finished() const {
    return parts_.options.max_steps > 0 && step() >= parts_.options.max_steps;
  }
  /// True if the run was asked to stop, in any process.
  virtual bool stopping() const { return parts_.stopped; }
  /// True if work that is done every so many steps, and was last done at step `last`, is due.
  virtual bool is_due(std::uint64_t every, std::uint64_t /*last*/) const {
    return step() % every == 0;
  }
  /// True if a checkpoint is due for another reason.
  virtual bool wants_checkpoint() { return false; }

  /// Prepares for steps up to update `until`, or to the end of this epoch of the feed.
  virtual void begin(Feed& feed, std::uint64_t epoch, std::uint64_t until) = 0;
  /// Makes a tower's steps.
  virtual void train(int tower, const MakeStep& make) = 0;
  /// The tower has made its steps.
  virtual void left(int tower) { strategy_->leave(tower); }
  /// Ends the steps of all towers because of an error. Called by any thread.
  virtual void fail(const Status& error) noexcept { strategy_->fail(error); }
  /// All towers have left. Gives the values that are not trained to all of them.
  virtual void settle();

  /// Returns the position of the input for a checkpoint. Fetches the variables.
  virtual std::string fetch(const Feed& feed) { return feed.save(); }
  /// Waits for the other processes at the end, and calls `look` meanwhile. Returns false if there
  /// are none to wait for.
  virtual bool wait_for_others(const std::function<void()>& /*look*/) { return false; }
  /// The run has ended and everything is saved.
  virtual void end() {}
  /// Called when `error` ended the run here. Throws the error that came before it elsewhere, if
  /// there was one.
  virtual void throw_first_loss(const Error& /*error*/) const {}
  /// Sets the fields of the result that the strategy knows.
  virtual void report(TrainResult& result) const { result.strategy = strategy_->stats(); }

 protected:
  /// Returns the number of this process's tower among all towers.
  int number(int tower) const noexcept { return parts_.towers.first() + tower; }
  Peers* peers() const noexcept { return parts_.options.strategy.peers; }

  const Parts parts_;

 private:
  const StrategyPtr strategy_;
};

/// Returns the loop for the options' strategy, which it makes with `strategy`.
std::unique_ptr<TrainLoop> make_train_loop(const TrainLoop::Parts& parts,
                                           const StrategyOptions& strategy);

}  // namespace penstock::towers
