// The facts that all processes of a job must have in common.
#pragma once

#include <penstock/towers/trainer.h>

#include "cluster/job.h"

namespace penstock::tool {

/// Returns the facts about the options and the program. Names and numbers are complete, as an error
/// message shows them.
cluster::Facts facts_of(const towers::TrainOptions& options);

}  // namespace penstock::tool
