// Transfer of values from one device to the next, in a network that is spread over several.
#pragma once

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// Passes values on unchanged: forward from memory of `from` to memory of `to`, and gradients back.
/// Each is a copy on a stream of the receiving device.
LayerPtr relay(const Part& from, const Part& to);

}  // namespace penstock::towers
