// A stage that sets how much to prepare ahead.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that asks the engine to prepare `count` elements of the input ahead, or `count`
/// batches after a batch stage. With 0 or -1 the engine chooses. Changes no byte of the output.
/// Throws Error{invalid_argument} if `count` is below -1.
NodePtr make_prefetch(NodePtr input, std::int64_t count);

}  // namespace penstock
