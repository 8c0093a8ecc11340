// A stage that takes chosen positions of an indexed input.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that gives the elements at `indices`, in that order. An index may repeat. Throws
/// Error{invalid_argument} if the input has no index, or if a position is past its end.
NodePtr make_select(NodePtr input, std::vector<std::uint64_t> indices);

}  // namespace penstock
