// Trains a model on one tower or many, and evaluates it in between.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/feed.h>

#include "towers/gpu/gpu.h"
#include "towers/model.h"
#include "towers/strategies/strategy.h"

namespace penstock::towers {

struct TrainOptions {
  std::vector<DevicePtr> devices{};  ///< a tower on each; the same one may be named twice
  std::int64_t batch = 64;           ///< rows of each tower's batches
  std::uint64_t epochs = 1;
  std::uint64_t max_steps = 0;       ///< updates at most; 0: as many as the epochs have
  std::uint64_t seed = 0;            ///< of variables, order, augmentation and dropout
  std::uint64_t evaluate_every = 0;  ///< updates; 0: at the end of each epoch
  /// Threads that compute a tower's steps; 0: the machine's, divided, or 1 if `deterministic`. Bits
  /// depend on it.
  int threads = 0;
  /// The same bits in every run, also in one that was interrupted: refuses strategies for which
  /// that can't be, and to go on from a checkpoint made with other threads, instructions or
  /// devices.
  bool deterministic = false;
  Precision precision = Precision::f32;  ///< of towers on cuda devices
  /// Where evaluations are computed, beside training; null: on the towers, in turn.
  DevicePtr validation_device{};
  /// A safetensors file with the values that variables begin with; empty: their initializers'.
  std::string initial_variables{};
  /// Where checkpoints are kept, and looked for in the beginning; empty: nowhere.
  std::string checkpoint_folder{};
  std::uint64_t checkpoint_every =
      0;                       ///< updates; 0: at the end of each epoch. `stop` makes one too
  StrategyOptions strategy{};  ///< its schedule is told how many updates there are
  FeedOptions feed{};          ///< its mode, end, slots and memory; the rest is the trainer's
  /// What towers compute with, whatever their devices: tests replace it. Null: oneDNN on host
  /// devices, NVIDIA's libraries on cuda devices.
  const GpuLibraries* libraries = nullptr;
};

struct StepReport {
  std::uint64_t step = 0;  ///< updates made before this one
  std::uint64_t epoch = 0;
  double loss = 0;      ///< the mean over all towers' rows, and regularisation
  double accuracy = 0;  ///< of the same rows
  double rate = 0;      ///< of learning
  std::int64_t rows = 0;
};

struct Evaluation {
  std::uint64_t step = 0;
  double loss = 0;  ///< without regularisation
  double accuracy = 0;
  std::int64_t rows = 0;
};

/// Told what happens. `on_step` is called by towers' threads, one call at a time and in the order
/// of steps; the rest by the thread that runs the trainer: what a validation tower found, when the
/// next evaluation is due, or at the end.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void on_step(const StepReport& /*report*/) {}
  virtual void on_evaluation(const Evaluation& /*evaluation*/) {}
};

struct TrainResult {
  std::uint64_t steps = 0;                 ///< updates made
  std::uint64_t resumed_at = 0;            ///< updates that runs before had made
  std::vector<float> losses{};             ///< of each step of this run
  std::optional<Evaluation> evaluation{};  ///< the last one
  double train_s = 0;                      ///< in steps, from the first batch on
  std::uint64_t elements = 0;
  FeedStats feed{};
  StrategyStats strategy{};
  std::uint64_t digest = 0;  ///< of the variables

  double elements_per_second() const noexcept {
    return train_s > 0 ? static_cast<double>(elements) / train_s : 0;
  }
};

using ModelMaker = std::function<ModelPtr(const Scope&)>;

/// A run of training. Used by one thread; `stop` by any.
///
///     Trainer trainer(model_kind("lenet").make, train, test, options);
///     const TrainResult result = trainer.run(observer);
class Trainer {
 public:
  /// Datasets give single elements, as the model takes them; `train` is in the order in which it is
  /// to be learnt. Throws Error{invalid_argument} for options that do not fit together.
  Trainer(const ModelMaker& make, const Dataset& train, const std::optional<Dataset>& test,
          TrainOptions options);
  ~Trainer();

  /// Trains to the end, or until `stop`. Throws what went wrong first, naming the tower; the others
  /// have ended then.
  TrainResult run(TrainObserver& observer);
  /// Ends the run after the step at hand.
  void stop() noexcept;
  /// The test set's loss and accuracy now; no row counts twice.
  Evaluation evaluate();

  /// Updates there will be if nobody stops it; 0: nobody knows.
  std::uint64_t planned_steps() const noexcept;
  /// What the towers did and waited for so far. By any thread.
  FeedStats feed_stats() const;
  VariableStore& variables() noexcept;
  Strategy& strategy() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::towers
