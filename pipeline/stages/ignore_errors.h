// A stage that leaves out elements that failed.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that leaves out elements that failed further up, whatever the run's policy is.
/// It counts them and, with `log_warning`, logs them. After a batch stage it leaves out whole
/// batches. Errors that are not the data's fault still come out: that the run was cancelled, or
/// that the memory budget has no room.
NodePtr make_ignore_errors(NodePtr input, bool log_warning);

}  // namespace penstock
