// A shortcut around layers.
#pragma once

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// Computes relu(body(x) + shortcut(x)). Without a shortcut it adds x itself. Source: He et al.,
/// 2016.
LayerPtr residual(const Scope& scope, LayerPtr body, LayerPtr shortcut = nullptr);

}  // namespace penstock::towers
