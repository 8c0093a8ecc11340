// Stages that take each element from one of several inputs.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that draws an input by weight for each element. No element of an input comes out
/// twice. An input with weight 0 is never drawn. The result ends when the weights of all inputs
/// that are left are 0. `fixed` says that the weights will never change, so that the number of
/// elements is known. Throws Error{invalid_argument} if the numbers of weights and inputs differ,
/// or if the specs do not fit.
NodePtr make_sample_from(std::vector<NodePtr> inputs, const MixWeights& weights, bool fixed,
                         MixOptions options);

/// Returns a stage that takes each element from the input that `choices` (one i64 scalar component)
/// names. A choice out of range becomes an error in its place. Without `stop_on_empty`, the choice
/// of an exhausted input is used up without effect.
NodePtr make_choose_from(std::vector<NodePtr> inputs, NodePtr choices, bool stop_on_empty);

}  // namespace penstock
