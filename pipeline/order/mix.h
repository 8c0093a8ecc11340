// Several inputs, one element from one of them at a time.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Draws an input by weight for each element, without replacement within it. An input with weight 0
/// is never drawn; if all are 0 the result is empty. Throws Error{invalid_argument} for a weight
/// that is negative or not a number, another number of weights than inputs, or specs that don't
/// fit.
NodePtr make_sample_from(std::vector<NodePtr> inputs, std::vector<double> weights,
                         MixOptions options);

/// Takes each element from the input that `choices` (one i64 scalar component) names. A choice that
/// is out of range is an error in its place. Not stopping: a pick of an exhausted input is used up
/// without effect.
NodePtr make_choose_from(std::vector<NodePtr> inputs, NodePtr choices, bool stop_on_empty);

}  // namespace penstock
