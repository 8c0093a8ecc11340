// Dropout.
#pragma once

#include "towers/layer.h"

namespace penstock::towers {

/// While training each value is zero with probability `rate`, else divided by 1 - rate; in
/// evaluation nothing changes. Which are dropped is a function of the seed, the scope's name, the
/// step, the element and the value's place in its row: not of the tower that has the element.
/// Throws Error{invalid_argument} unless 0 <= rate < 1.
LayerPtr dropout(const Scope& scope, float rate);

}  // namespace penstock::towers
