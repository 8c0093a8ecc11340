// Windows of elements that have something in common.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Elements of equal key, `size` at a time: a window comes when it is full, and at the end what is
/// left in the order of the keys. Batched, or made into the dataset that `reduce` gives. range(10),
/// x % 2, size 5 = 0 2 4 6 8 | 1 3 5 7 9. An element that fails costs only itself. Throws
/// Error{invalid_argument} for no key, or unless exactly one of size and size_of is given.
NodePtr make_group_by_window(NodePtr input, KeyFn key, GroupOptions options);

}  // namespace penstock
