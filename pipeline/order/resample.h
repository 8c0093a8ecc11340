// Classes in other proportions.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Drops elements at random so that what is left has the classes' shares of `target`; adds the
/// class as a component in front. An element of class c is kept with probability r(c) / max r,
/// where r = target / initial: so target == initial drops nothing, and none comes twice. Without
/// `initial` the shares of what has passed so far take its place; classes not seen yet do not
/// count. Which elements are dropped depends on the seed, the epoch and the elements before. A
/// class outside of [0, target.size()) is the element's error. Throws Error{invalid_argument} for
/// shares that are negative, not finite or all 0, or a class with a target that can't occur.
NodePtr make_rejection_resample(NodePtr input, KeyFn class_of, std::vector<double> target,
                                ResampleOptions options);

}  // namespace penstock
