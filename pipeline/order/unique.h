// The first of elements that are alike.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Keeps an element unless one before it was equal in these components (all, if none are named):
/// the same dtypes, shapes and values, bit for bit. What was seen is kept in the byte budget; when
/// that is full the pass ends with an error. Throws Error{not_found} for a component that there is
/// not.
NodePtr make_unique_stage(NodePtr input, std::vector<std::string> components);

}  // namespace penstock
