// The claim of Slurm's variables.
#pragma once

#include <optional>

#include "cluster/launchers.h"

namespace penstock::cluster {

/// Returns the claim of a process in a step. Returns nothing for other processes: a shell or a
/// batch script of an allocation is one process, although it has the numbers of the allocation.
/// Throws Error{invalid_argument} for variables that are incomplete or wrong.
std::optional<Claim> slurm_claim(const Environment& environment);

}  // namespace penstock::cluster
