// Keeping elements by what they hold.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Keeps the elements for which `predicate` (an op that sets WorkItem::keep) says yes. The
/// predicate runs in parallel; only its verdict reaches the order. filter(x < 3) on 1 2 3 = 1 2.
NodePtr make_filter(NodePtr input, WorkOpPtr predicate);
/// Ends at the first element for which `predicate` says no.
NodePtr make_take_while(NodePtr input, WorkOpPtr predicate);

}  // namespace penstock
