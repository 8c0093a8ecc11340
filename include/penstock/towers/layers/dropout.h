// Dropout.
#pragma once

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// In training, sets each value to zero with probability `rate` and divides the others by 1 - rate.
/// In evaluation nothing changes. The choice of values is a function of the seed, the scope's name,
/// the step, the element and the value's place in its row. It does not depend on the tower that has
/// the element. Throws Error{invalid_argument} unless 0 <= rate < 1.
LayerPtr dropout(const Scope& scope, float rate);

}  // namespace penstock::towers
