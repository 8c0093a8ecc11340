// A stage that carries a state from element to element.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that computes (state, output) = fn(state, element) for one element after the
/// other on the order thread, and gives the outputs. A running sum of range(4) = 0 1 3 6. An
/// exception of `fn` becomes the element's error and leaves the state unchanged. An element that
/// failed before leaves it unchanged too. Each pass begins with `initial`. Throws
/// Error{invalid_argument} if `fn` is empty.
NodePtr make_scan(NodePtr input, Element initial, ScanFn fn, ScanOptions options);

}  // namespace penstock
