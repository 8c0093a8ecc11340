// Several inputs, one element from one of them at a time.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Draws an input by weight for each element, without replacement within it. An input with weight 0
/// is never drawn; the result ends where all are 0. Throws Error{invalid_argument} for another
/// number of weights than inputs, or specs that don't fit. `fixed`: nobody will change the weights,
/// so that the number of elements is known.
NodePtr make_sample_from(std::vector<NodePtr> inputs, const MixWeights& weights, bool fixed,
                         MixOptions options);

/// Takes each element from the input that `choices` (one i64 scalar component) names. A choice that
/// is out of range is an error in its place. Not stopping: a pick of an exhausted input is used up
/// without effect.
NodePtr make_choose_from(std::vector<NodePtr> inputs, NodePtr choices, bool stop_on_empty);

}  // namespace penstock
