// Facts that follow from a run's options before it begins.
#pragma once

#include <cstdint>
#include <string>

#include <penstock/towers/trainer.h>

namespace penstock::towers {

/// The number of towers of the checkpoint that a run resumes from, and the rows of each one's
/// batch; 0: there is no checkpoint.
struct KeptTowers {
  int towers = 0;
  std::int64_t batch = 0;
  std::string file{};
};

/// Throws Error{invalid_argument} for options that do not fit together.
void check_options(const TrainOptions& options);
/// Return the number of towers in all processes, and the number of this process's first tower.
int all_towers(const TrainOptions& options);
int first_tower(const TrainOptions& options);
/// True if a tower on this device computes with a Gpu.
bool computes_on_gpu(const TrainOptions& options, const Device& device);
/// Returns the options with open choices filled in: threads, one tower for a model that is spread,
/// and virtual towers, each with a device. Throws Error{invalid_argument} if towers cannot be
/// divided so.
TrainOptions completed(TrainOptions options, const KeptTowers& kept = {});
/// True if `towers` towers make the same steps as those of the checkpoint. That is so if both
/// divide batches with as many rows for an update, and ends of epochs do not depend on the number
/// of towers.
bool makes_steps_of(const TrainOptions& options, int towers, const KeptTowers& kept);
/// Returns the batches that the feed of all towers consumes.
Dataset batches_to_train(const Dataset& train, const TrainOptions& options);
/// Returns the number of batches that each tower receives; 0 if it cannot be known.
std::uint64_t batches_of_tower(const Dataset& train, const TrainOptions& options);
/// Returns the number of all updates; 0 if it cannot be known.
std::uint64_t steps_of(const Dataset& train, const TrainOptions& options);
/// Returns complete options, whose schedule knows the number of updates. Also throws
/// Error{invalid_argument} for data that make no batch.
TrainOptions planned(const Dataset& train, TrainOptions options, const KeptTowers& kept);
/// True if each tower has its own variables. The run's variables are then those of tower 0.
inline bool towers_differ(const TrainOptions& options) {
  return options.strategy.kind == StrategyKind::independent;
}

}  // namespace penstock::towers
