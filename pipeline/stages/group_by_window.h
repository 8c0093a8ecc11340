// The stage that gathers elements of equal key into windows.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Makes a stage that gathers elements of equal key, `size` at a time:
///
///     range(10), x % 2, size 5 = 0 2 4 6 8 | 1 3 5 7 9
///
/// A window comes out when it is full. At the end, the rest comes out in the order of the keys.
/// Each window becomes a batch, or the dataset that `reduce` makes of it. An element that fails
/// costs only itself. Throws Error{invalid_argument} if there is no key function, and unless
/// exactly one of size and size_of is given.
NodePtr make_group_by_window(NodePtr input, KeyFn key, GroupOptions options);

}  // namespace penstock
