// Datasets made from elements, read in turn.
#pragma once

#include <functional>
#include <string>

#include "pipeline/order/node.h"

namespace penstock {

/// `cycle` datasets are open at once; up to `block` elements are taken in a row from one, then
/// comes the next. One that ends is closed and its place is filled with the next input when it is
/// visited next; an empty one is passed over. With cycle 1 this is flat_map. What `fn` throws is an
/// error in its place; the next visit tries the next input. The order never depends on threads.
/// Datasets that `fn` makes must fit `output`; their maps run in parallel with everything else's,
/// but their filters and caches run on the order thread. range(1..5), each repeated 6 times, cycle
/// 2, block 4: 1111 2222 11 22 3333 4444 33 44 5555 55.
NodePtr make_interleave(NodePtr input, FlatMapFn fn, Spec output, InterleaveOptions options);

/// A dataset made of an item that is no error.
using ExpandFn = std::function<Dataset(const ElementRef&)>;
/// Opens what the datasets are made of, again and again when a state is restored.
using OpenInputFn = std::function<OrderIteratorPtr(const OpenContext&)>;
/// The iterator of such a stage.
OrderIteratorPtr open_interleave(OpenInputFn open_input, ExpandFn fn, const Spec& output,
                                 InterleaveOptions options, const OpenContext& context,
                                 std::string stage);

}  // namespace penstock
