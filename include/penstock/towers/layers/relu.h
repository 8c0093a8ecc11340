// The rectifier.
#pragma once

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// Computes max(x, 0) of any shape. The derivative at 0 is 0.
LayerPtr relu(const Scope& scope);

}  // namespace penstock::towers
