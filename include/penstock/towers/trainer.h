// The trainer: trains a model on one tower or many, and evaluates it in between.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/feed.h>
#include <penstock/image.h>
#include <penstock/towers/class_weights.h>
#include <penstock/towers/evaluation.h>
#include <penstock/towers/model.h>
#include <penstock/towers/precision.h>
#include <penstock/towers/strategy.h>

namespace penstock::towers {

struct GpuLibraries;

/// The options of a run of training.
struct TrainOptions {
  std::vector<DevicePtr> devices{};  ///< a tower on each; you may name the same device twice
  /// Towers that define the course of a run: gradients, statistics, dropout and batches are theirs.
  /// They are divided among the devices of all processes, and each device computes its share one
  /// after the other. So a run has the same course on any number of devices that divides them. For
  /// host devices. 0: the number of devices, or of the towers in the checkpoint that the run is
  /// resumed from.
  int virtual_towers = 0;
  int towers_in_turn = 1;    ///< on each device; set by the trainer
  std::int64_t batch = 64;   ///< rows of each tower's batches
  std::uint64_t epochs = 1;  ///< of the training data
  /// The model's name. Checkpoints keep it, and a run does not resume from another model's; empty:
  /// none is kept.
  std::string model{};
  std::uint64_t max_steps = 0;       ///< updates at most; 0: as many as the epochs have
  std::uint64_t seed = 0;            ///< of variables, order, augmentation and dropout
  std::uint64_t evaluate_every = 0;  ///< updates; 0: at the end of each epoch
  /// Ends the run after this many evaluations that are no better than the best before them; 0:
  /// never. The best checkpoint is kept in addition to the newest. A resumed run continues the
  /// count. Not with parameter servers.
  int patience = 0;
  /// The figure that decides which evaluation is better.
  Measure patience_by = Measure::loss;
  /// Threads that compute a tower's steps. 0: the machine's, divided among the towers of all its
  /// processes, or 1 if `deterministic`. Bits depend on it.
  int threads = 0;
  int processes_here = 1;  ///< processes of the job that compute on this machine
  /// Requires the same bits in every run, also in one that was interrupted. It refuses strategies
  /// that can't give them. It also refuses to resume from a checkpoint made with other threads,
  /// instructions or devices.
  bool deterministic = false;
  Precision precision = Precision::f32;  ///< of towers on cuda devices
  /// The device that computes evaluations during training; null: the towers compute them, in turn.
  DevicePtr validation_device{};
  /// A safetensors file with the values that variables begin with; empty: their initializers give
  /// them.
  std::string initial_variables{};
  bool cast_initial_variables = false;  ///< converts f16, bf16 and f64 in that file to f32
  /// The weights of the rows of classes, in training and in evaluations. Other classes have 1.
  std::vector<ClassWeight> class_weights{};
  /// The folder of checkpoints, which is also searched for one at the start; empty: none. It may be
  /// one of s3:// or gs://, if the store has conditional writes.
  std::string checkpoint_folder{};
  /// Updates between checkpoints; 0: at the end of each epoch. `stop` writes one too.
  std::uint64_t checkpoint_every = 0;
  int checkpoints_kept = 2;  ///< the newest ones
  /// The strategy. The trainer tells its schedule the number of updates. With `peers`, the towers
  /// are those of all processes, which have the same options except for devices. Rank 0 evaluates
  /// and writes checkpoints. It sends the checkpoint to resume from to processes that don't find it
  /// in their folder. With `served`, process 0 does all this, and no other process looks into the
  /// folder: the servers have all that the others need.
  StrategyOptions strategy{};
  /// The ops of the training data that the towers' devices carry out: the data end in their
  /// `on_device`. Evaluation data have none.
  std::optional<ImageOps> on_device{};
  /// Its mode, end, slots and memory; the trainer sets the rest.
  FeedOptions feed{};
  /// The libraries that towers compute with, whatever their devices; tests replace them. Null:
  /// oneDNN on host devices, NVIDIA's libraries on cuda devices.
  const GpuLibraries* libraries = nullptr;
};

/// The result of a step.
struct StepReport {
  std::uint64_t step = 0;     ///< updates made before this one
  std::uint64_t epoch = 0;    ///< counted from 0
  double loss = 0;            ///< the mean over all towers' rows, with regularisation
  double accuracy = 0;        ///< of the same rows
  double rate = 0;            ///< the learning rate
  std::int64_t rows = 0;      ///< of all towers
  double own_loss = 0;        ///< the mean over the rows of this process's towers
  std::int64_t own_rows = 0;  ///< of this process's towers
};

/// A receiver of a run's events. Towers' threads call `on_step`, one call at a time and in the
/// order of steps. The thread that runs the trainer makes the other calls. It reports the results
/// of a validation tower when the next evaluation is due, or at the end.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// Receives each step.
  virtual void on_step(const StepReport& /*report*/) {}
  /// Receives each evaluation.
  virtual void on_evaluation(const Evaluation& /*evaluation*/) {}
  /// Receives the number of updates of a checkpoint that is about to be written. A run that is
  /// resumed from it does not report the steps before it again.
  virtual void before_checkpoint(std::uint64_t /*step*/) {}
  /// Receives each evaluation with the variables that were evaluated, those of tower 0. The trainer
  /// calls this function, which calls `on_evaluation` unless you override it.
  virtual void on_evaluated(const Evaluation& evaluation, const VariableStore& /*variables*/) {
    on_evaluation(evaluation);
  }
};

/// The result of a run.
struct TrainResult {
  std::uint64_t steps = 0;                 ///< updates made
  bool stopped = false;                    ///< by `stop`, here or in another process
  bool early_stopped = false;              ///< by `patience`
  std::uint64_t diverged_steps = 0;        ///< steps whose loss was no number, or beyond 1e18
  std::uint64_t resumed_at = 0;            ///< updates that earlier runs had made
  std::vector<float> losses{};             ///< of each step of this run
  std::optional<Evaluation> evaluation{};  ///< the last one
  double train_s = 0;                      ///< seconds in steps, from the first batch on
  std::uint64_t elements = 0;              ///< that steps took
  FeedStats feed{};                        ///< of the batches
  StrategyStats strategy{};                ///< of the exchanges
  std::uint64_t digest = 0;                ///< of the variables
  // With parameter servers these are the chief's figures. `steps` and `strategy` are then those of
  // all processes.
  std::uint64_t losses_of_processes = 0;  ///< how often a process was lost
  std::vector<int> lost_processes{};      ///< processes that were lost at the end
  /// Batches that the lost processes left over, as far as that is known.
  std::uint64_t untrained_batches = 0;

  /// Returns the elements of this run by the time in steps.
  double elements_per_second() const noexcept {
    return train_s > 0 ? static_cast<double>(elements) / train_s : 0;
  }
};

/// A callable that makes the model of one tower.
using ModelMaker = std::function<ModelPtr(const Scope&)>;

/// A run of training. One thread uses it; any thread may call `stop`.
///
///     Trainer trainer(model_kind("lenet").make, train, test, options);
///     const TrainResult result = trainer.run(observer);
class Trainer {
 public:
  /// Makes a run. Datasets give single elements, as the model takes them; `train` is in the order
  /// of training. Throws Error{invalid_argument} for options that do not fit together, and naming a
  /// class of the data that the run does not know.
  Trainer(const ModelMaker& make, const Dataset& train, const std::optional<Dataset>& test,
          TrainOptions options);
  ~Trainer();

  /// Trains to the end, or until `stop`. Throws the first error, naming the tower; the other towers
  /// have ended then.
  TrainResult run(TrainObserver& observer);
  /// Ends the run after the current step.
  void stop() noexcept;
  /// Returns the test set's loss and accuracy now; no row counts twice.
  Evaluation evaluate();

  /// Returns the number of updates that the run makes if it is not stopped; 0: not known.
  std::uint64_t planned_steps() const noexcept;
  /// Returns the towers' work and waits so far. Any thread may call it.
  FeedStats feed_stats() const;
  /// Returns the variables of all towers.
  VariableStore& variables() noexcept;
  /// Returns the strategy.
  Strategy& strategy() noexcept;
  /// Returns the classes that labels count. They come from the checkpoint that the run is resumed
  /// from or the file of initial variables, else from the training data. Empty: none names them.
  /// Labels of both datasets are matched with them by name.
  const std::vector<std::string>& classes() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::towers
