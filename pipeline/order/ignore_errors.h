// Elements that failed, left out.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Leaves out elements that failed further up, whatever the run's policy; they are counted, and
/// with `log_warning` said through the log. Behind a batch it leaves out whole batches. What is no
/// fault of the data (the run was cancelled, the memory budget has no room) comes out all the same.
NodePtr make_ignore_errors(NodePtr input, bool log_warning);

}  // namespace penstock
