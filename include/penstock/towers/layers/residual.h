// A shortcut around layers.
#pragma once

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// Computes relu(body(x) + shortcut(x)). Without a shortcut it adds x itself. Source: He et al.,
/// 2016. On a GPU, sum and relu take no pass over memory of their own if the body ends with a batch
/// normalisation, and the shortcut, too, or there is none.
LayerPtr residual(const Scope& scope, LayerPtr body, LayerPtr shortcut = nullptr);

}  // namespace penstock::towers
