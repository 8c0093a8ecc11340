// A stage that keeps the first of equal elements.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that drops an element if an earlier one was equal in these components (in all,
/// if none are named). Equal means the same dtypes, shapes and values, bit for bit. The values seen
/// so far are kept in the byte budget. When the budget is full, the pass ends with an error. Throws
/// Error{not_found} for an unknown component.
NodePtr make_unique_stage(NodePtr input, std::vector<std::string> components);

}  // namespace penstock
