// One input after another.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// [1 2 3] + [4 5] = 1 2 3 4 5. Components must agree in name, order and dtype; shapes relax to
/// what fits both. Throws Error{invalid_argument} naming both specs.
NodePtr make_concatenate(NodePtr first, NodePtr second);

}  // namespace penstock
