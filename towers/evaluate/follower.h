// A process that evaluates the checkpoints of a run that another process trains.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/towers/trainer.h>

#include "towers/evaluate/best_export.h"
#include "towers/evaluate/evaluation_log.h"
#include "towers/evaluate/follow_plan.h"

namespace penstock::towers {

struct FollowerOptions {
  /// Only its folder, its one device, batch, threads and precision are used.
  TrainOptions train{};
  FollowOptions follow{};
  std::string best{};  ///< see BestExport; empty: none
  Measure best_by = Measure::loss;
  /// Identify the run. If the folder says that training has ended, but with another number of
  /// epochs or updates, that was an earlier run. Nothing: any number.
  std::optional<std::uint64_t> epochs{};
  std::optional<std::uint64_t> max_steps{};
};

/// Callbacks for results.
class FollowObserver {
 public:
  virtual ~FollowObserver() = default;
  /// Called at the beginning and after each evaluation with the whole log, the newest entry last.
  virtual void on_log(const std::vector<RecordedEvaluation>& /*all*/) {}
  /// `is_best` is true if the variables were exported.
  virtual void on_evaluation(const RecordedEvaluation& /*one*/, bool /*is_best*/) {}
};

struct FollowResult {
  std::vector<RecordedEvaluation> evaluations{};  ///< including those of earlier evaluators
  std::uint64_t made = 0;                         ///< evaluations made by this one
  bool stopped = false;                           ///< by `stop`, before training had ended
};

/// An evaluator of the checkpoints in a folder. FollowPlan says when to evaluate. EvaluationLog
/// ensures that each checkpoint is evaluated once, even if the process is killed. The training
/// process knows nothing of it. Used by one thread; any thread may call `stop`.
class Follower {
 public:
  /// `test` gives single elements, as the model takes them. Throws Error{invalid_argument} for
  /// options that do not fit together, and what EvaluationLog and BestExport throw.
  Follower(const ModelMaker& make, const Dataset& test, FollowerOptions options);
  ~Follower();

  /// Returns once training has ended and its last checkpoint was evaluated, or after `stop`. Throws
  /// Error{no_progress} if training seems to have stopped, and Error{invalid_argument} for
  /// checkpoints of another model. A checkpoint that is removed meanwhile is ignored. A damaged one
  /// is skipped with a warning, unless it is the last.
  FollowResult run(FollowObserver& observer);
  void stop() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::towers
