// Windows that slide over the elements.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Element j of window k is the input's k * shift + j * stride; windows start while there is an
/// element at k * shift, and are short at the end unless they are dropped. Each becomes a batch or,
/// with `each`, the elements of the dataset that this makes of it. range(7), size 3, shift 1,
/// stride 2, dropping = 0 2 4 | 1 3 5 | 2 4 6. An element that failed keeps its number; its error
/// comes once, and the windows that it would be in are left out. Throws Error{invalid_argument}
/// unless size, shift and stride are positive.
NodePtr make_window(NodePtr input, std::int64_t size, WindowOptions options, WindowFn each = {});

/// Adds the stages of a dataset that a callable made to the description of its stage.
void describe_inner(const Node& node, Description& description);

}  // namespace penstock
