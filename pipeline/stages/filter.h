// Stages that keep elements depending on their contents.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that keeps the elements that `predicate` (an op that sets WorkItem::keep)
/// accepts. The predicate runs in parallel, and only its result affects the order. filter(x < 3) on
/// 1 2 3 = 1 2.
NodePtr make_filter(NodePtr input, WorkOpPtr predicate);
/// Returns a stage that ends at the first element that `predicate` rejects.
NodePtr make_take_while(NodePtr input, WorkOpPtr predicate);

}  // namespace penstock
