// Work on each element, in parallel.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Applies `op` to every element. Nothing runs here: the op joins the program of the items that
/// pass, which is carried out where values are needed, at best straight into a batch row. `ordered`
/// false: values are made here and delivered as they finish.
NodePtr make_map(NodePtr input, WorkOpPtr op, bool ordered = true);

}  // namespace penstock
