// A stage that shuffles: perfectly in O(1) memory if the input has an index, otherwise through a
// buffer.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that shuffles its input. If buffer == 0, it applies a keyed permutation of all
/// positions. Throws Error{invalid_argument} if the input then has no index. If buffer > 0, it
/// shuffles as tf.data does. It fills the buffer up to `buffer` elements, draws one of them
/// uniformly, and refills. At the end it drains the buffer. So the element with input position i
/// comes out no earlier than at position i - (buffer - 1).
NodePtr make_shuffle(NodePtr input, ShuffleOptions options);

}  // namespace penstock
