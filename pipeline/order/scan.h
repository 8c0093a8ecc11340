// A state that runs through the elements.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// (state, output) = fn(state, element), one element after the other, on the order thread; the
/// outputs come out. A running sum of range(4) = 0 1 3 6. What fn throws is the element's error and
/// leaves the state as it was; so does an element that failed before. Each pass begins with
/// `initial`. Throws Error{invalid_argument} for no function.
NodePtr make_scan(NodePtr input, Element initial, ScanFn fn, ScanOptions options);

}  // namespace penstock
