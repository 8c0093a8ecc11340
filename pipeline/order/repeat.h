// The input again and again.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// `count` passes over the input, without end for a negative count. Every pass is complete before
/// the next begins, draws random numbers of its own, and elements of different passes have
/// different ordinals. Without an end it ends at the first pass that gives nothing, so that an
/// empty input can't spin.
NodePtr make_repeat(NodePtr input, std::int64_t count);

}  // namespace penstock
