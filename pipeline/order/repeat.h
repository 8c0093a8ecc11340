// The input again and again.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// `count` passes over the input, without end for a negative count. Every pass is complete before
/// the next begins, draws random numbers of its own, and elements of different passes have
/// different ordinals. Without an end it ends at the first pass that gives nothing, so that an
/// empty input can't spin.
NodePtr make_repeat(NodePtr input, std::int64_t count);

/// The cardinality that a node made by `make_repeat` would have behind an input of `size` elements;
/// nothing for any other node.
std::optional<std::int64_t> repeated_size(const Node& node, std::int64_t size);

}  // namespace penstock
