// The rectifier.
#pragma once

#include "towers/layer.h"

namespace penstock::towers {

/// max(x, 0) of any shape; the derivative at 0 is 0.
LayerPtr relu(const Scope& scope);

}  // namespace penstock::towers
