// Agreement between the processes of a job before the first step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <penstock/towers/peers.h>
#include <penstock/towers/trainer.h>

#include "towers/checkpoint/checkpoint.h"

namespace penstock::towers {

/// Returns the folder where this process keeps checkpoints, which rank 0 writes; nothing if it
/// keeps none.
std::optional<Checkpoints> checkpoint_folder(const TrainOptions& options);

/// Returns the checkpoint that all processes resume from, which is rank 0's newest; nothing if
/// there is none. Processes that do not find it in their own folder receive it. `folder` is null if
/// this process keeps no checkpoints. Throws what Checkpoints::newest throws, and
/// Error{invalid_argument} that names a rank whose newest checkpoint is newer than rank 0's.
std::optional<StoredRun> agree_on_checkpoint(Checkpoints* folder, Peers* peers);

/// Throws Error{invalid_argument}, which names the odd rank, unless all processes are at this step
/// with variables of this digest.
void check_alike(Peers& peers, std::uint64_t step, std::uint64_t digest);

/// Replaces the values by those of rank 0.
void take_first_values(Peers& peers, std::span<float> values);

/// True if `mine` is true in any process.
bool any_says(Peers& peers, bool mine);

}  // namespace penstock::towers
