// Stages that combine several inputs to tuples, and that count elements.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that gives tuples of one element from each input and ends with the shortest
/// input. When one input ends, the others are still pulled for that tuple, as in tf.data. If one
/// part of a tuple fails, the tuple fails as a whole, so that the parts stay aligned. Throws
/// Error{invalid_argument} if there are no inputs, or if two of them have a component of the same
/// name.
NodePtr make_zip(std::vector<NodePtr> inputs);

/// Returns a stage that adds an i64 component that counts from `start`.
NodePtr make_enumerate(NodePtr input, std::int64_t start, std::string component);

}  // namespace penstock
