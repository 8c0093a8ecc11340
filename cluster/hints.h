// Variables that hint at a job of several processes, without saying enough to take part in it.
#pragma once

#include "cluster/environment.h"

namespace penstock::cluster {

/// Throws Error{invalid_argument}, which names the variable, if the environment hints at a job of
/// several processes. For an environment without claims: a launcher may have started several
/// processes, but its variables do not say which of them this is.
void refuse_hints(const Environment& environment);

}  // namespace penstock::cluster
