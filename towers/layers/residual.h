// A shortcut around layers.
#pragma once

#include "towers/layer.h"

namespace penstock::towers {

/// relu(body(x) + shortcut(x)); without a shortcut x itself. Source: He et al., 2016.
LayerPtr residual(const Scope& scope, LayerPtr body, LayerPtr shortcut = nullptr);

}  // namespace penstock::towers
