// Shuffling: perfect in O(1) memory where the input has an index, else by a buffer.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// buffer == 0: a keyed permutation of all positions; Throws Error{invalid_argument} if the input
/// has no index. buffer > 0: tf.data's: fill up to `buffer`, draw one uniformly, refill; at the
/// end, drain. So the element with input position i comes out no earlier than i - (buffer - 1).
NodePtr make_shuffle(NodePtr input, ShuffleOptions options);

}  // namespace penstock
