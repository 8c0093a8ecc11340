// Tuples of several inputs, and counting.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// One element of each input side by side; ends with the shortest. When one ends the others are
/// still pulled for that tuple, as in tf.data. A tuple of which one part failed fails as a whole,
/// so that the parts stay aligned. Throws Error{invalid_argument} for no inputs or a component name
/// in two of them.
NodePtr make_zip(std::vector<NodePtr> inputs);

/// Adds an i64 component that counts from `start`.
NodePtr make_enumerate(NodePtr input, std::int64_t start, std::string component);

}  // namespace penstock
