// A stage that changes the proportions of classes.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that drops elements at random, so that the remaining ones have the shares of
/// classes in `target`. It adds the class as the first component. An element of class c is kept
/// with probability r(c) / max r, where r = target / initial. So target == initial drops nothing,
/// and no element comes twice. Without `initial`, the shares in the elements seen so far are used;
/// classes not seen yet do not count. The dropped elements depend on the seed, the epoch and the
/// preceding elements. A class outside of [0, target.size()) is an error of the element. Throws
/// Error{invalid_argument} if shares are negative, not finite or all 0, or if a class with a target
/// cannot occur.
NodePtr make_rejection_resample(NodePtr input, KeyFn class_of, std::vector<double> target,
                                ResampleOptions options);

}  // namespace penstock
