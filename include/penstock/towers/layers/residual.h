// A shortcut around layers.
#pragma once

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// Computes relu(body(x) + shortcut(x)). Without a shortcut it adds x itself. Source: He et al.,
/// 2016. Calls `forward` of the shortcut first. On a GPU, a batch normalisation without a relu that
/// ends the body writes the block's output, if the shortcut ends with one, too, or there is none.
LayerPtr residual(const Scope& scope, LayerPtr body, LayerPtr shortcut = nullptr);

}  // namespace penstock::towers
