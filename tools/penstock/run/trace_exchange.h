// The trace of gradient exchanges, for `penstock train --trace`.
#pragma once

#include <penstock/towers/strategy.h>

namespace penstock::tool {

/// Begins a trace of one of `ranks` processes, in which exchanges have a track of their own.
void trace_exchange(towers::StrategyOptions& strategy, int ranks);

}  // namespace penstock::tool
