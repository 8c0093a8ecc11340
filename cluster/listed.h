// The claims of lists that name each member of a job: the flag --cluster, and TF_CONFIG.
#pragma once

#include <optional>

#include "cluster/launchers.h"

namespace penstock::cluster {

/// Returns the claim of the flags; nothing if they say nothing about a job. Throws
/// Error{invalid_argument} for flags that are incomplete or wrong.
std::optional<Claim> claim_in(const ClusterFlags& flags);

/// Returns the claim of TF_CONFIG; nothing if it is not set, or an empty object. Throws what
/// `parse_tf_config` throws.
std::optional<Claim> tf_config_claim(const Environment& environment);

}  // namespace penstock::cluster
