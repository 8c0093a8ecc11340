// The stage that slides windows over the elements.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Makes a stage of windows: element j of window k is the input's element k * shift + j * stride.
///
///     range(7), size 3, shift 1, stride 2, with drop_remainder = 0 2 4 | 1 3 5 | 2 4 6
///
/// A window starts wherever the input has an element k * shift. Windows at the end are short,
/// unless they are dropped. Each window becomes a batch or, with `each`, the elements of the
/// dataset that `each` makes of it. A failed element keeps its number. Its error comes once, and
/// the windows that would hold it are left out. Throws Error{invalid_argument} unless size, shift
/// and stride are positive.
NodePtr make_window(NodePtr input, std::int64_t size, WindowOptions options, WindowFn each = {});

/// Adds the stages of the dataset `node`, which a callable made, to the description of its stage.
void describe_inner(const Node& node, Description& description);

}  // namespace penstock
