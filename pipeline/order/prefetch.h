// How much to prepare ahead.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Elements of the input (batches behind batch) to prepare ahead; 0 or -1: the engine's choice.
/// Changes no byte of the output. Throws Error{invalid_argument} below -1.
NodePtr make_prefetch(NodePtr input, std::int64_t count);

}  // namespace penstock
