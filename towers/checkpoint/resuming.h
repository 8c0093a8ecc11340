// Resuming a run from a checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <penstock/towers/trainer.h>

#include "towers/checkpoint/checkpoint.h"
#include "towers/train/train_plan.h"

namespace penstock::towers {

/// Restores variables, strategy and position. Throws Error{invalid_argument} that names a setting
/// that differs, and both its values. Two settings may differ, and the log says so. One is the
/// number of updates; it is logged if a schedule depends on it. The other is the number of towers,
/// with the rows of their batches, if the towers make the same steps.
RunPosition resume_from(const StoredRun& found, VariableStore& store, Strategy& strategy,
                        const TrainOptions& options, std::uint64_t steps);
/// Opens the feed at a position; empty: at the start. If the position does not fit, the error names
/// the checkpoint `file`.
std::unique_ptr<Feed> open_feed_at(const std::string& position, const std::string& file,
                                   const Dataset& batches, const std::vector<DevicePtr>& devices,
                                   const FeedOptions& options);
/// Returns the towers of the checkpoint's run.
KeptTowers kept_towers(const StoredRun& found);
inline constexpr const char* kTrainingData = "the training data";
inline constexpr const char* kEvaluationData = "the evaluation data";

/// Returns the classes to learn; see Trainer::classes. `found` is the checkpoint to resume from;
/// null if there is none. Warns of training data with only one class, and of initial variables of
/// other classes. Throws Error{invalid_argument} if the checkpoint's classes differ from the data's
/// and there are parameter servers, because the job's other processes do not see the checkpoint.
std::vector<std::string> classes_to_learn(const Dataset& train, const StoredRun* found,
                                          const TrainOptions& options);

}  // namespace penstock::towers
