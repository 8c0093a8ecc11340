// The stage that applies an op to each element, in parallel.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Makes a stage that applies `op` to every element. The stage runs nothing itself: its op joins
/// the program of the items, which runs where their values are needed, at best straight into a
/// batch row. If `ordered` is false, values are made here and delivered as they finish.
NodePtr make_map(NodePtr input, WorkOpPtr op, bool ordered = true);

}  // namespace penstock
