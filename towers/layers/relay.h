// The way from one device to the next in a network that is spread over several.
#pragma once

#include "towers/layer.h"

namespace penstock::towers {

/// Passes values on as they are: forward from memory of `from` to memory of `to`, gradients back,
/// each by a copy on a stream of the device that gets them.
LayerPtr relay(const Part& from, const Part& to);

}  // namespace penstock::towers
