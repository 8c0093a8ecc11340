// Chosen positions of an indexed input.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// The elements at `indices`, in that order; an index may repeat. Throws Error{invalid_argument}
/// for an input without an index or a position past its end.
NodePtr make_select(NodePtr input, std::vector<std::uint64_t> indices);

}  // namespace penstock
