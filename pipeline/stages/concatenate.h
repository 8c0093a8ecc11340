// One input after another.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that gives the elements of `first`, then those of `second`: [1 2 3] + [4 5] = 1
/// 2 3 4 5. The components must agree in name, order and dtype. Shapes are relaxed to fit both.
/// Throws Error{invalid_argument} that names both specs.
NodePtr make_concatenate(NodePtr first, NodePtr second);

}  // namespace penstock
