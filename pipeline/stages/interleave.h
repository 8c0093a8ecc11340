// A stage that makes datasets from elements and reads them in turn.
#pragma once

#include <functional>
#include <string>

#include "pipeline/stage/node.h"
#include "pipeline/stage/open_context.h"
#include "pipeline/stage/order_iterator.h"

namespace penstock {

/// Returns a stage that makes a dataset from each element and takes elements from these in turn.
/// `cycle` datasets are open at once. Up to `block` elements are taken in a row from one, then from
/// the next. A dataset that ends is closed. The next visit to its place opens the next input. An
/// empty dataset is skipped. With cycle 1 this is flat_map. An exception of `fn` becomes an error
/// in its place, and the next visit tries the next input. The order never depends on threads.
/// Datasets that `fn` makes must fit `output`. Their maps run in parallel with all other work, but
/// their filters and caches run on the order thread. Example: range(1..5), each repeated 6 times,
/// cycle 2, block 4: 1111 2222 11 22 3333 4444 33 44 5555 55.
NodePtr make_interleave(NodePtr input, FlatMapFn fn, Spec output, InterleaveOptions options);

/// Makes a dataset from an item that is not an error.
using ExpandFn = std::function<Dataset(const ElementRef&)>;
/// Opens the input from which the datasets are made. Called again whenever a state is restored.
using OpenInputFn = std::function<OrderIteratorPtr(const OpenContext&)>;
/// Opens the iterator of such a stage.
OrderIteratorPtr open_interleave(OpenInputFn open_input, ExpandFn fn, const Spec& output,
                                 InterleaveOptions options, const OpenContext& context,
                                 std::string stage);

}  // namespace penstock
