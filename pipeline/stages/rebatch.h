// The stage that divides batches into batches of other sizes.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Makes a stage that deals the rows of the input's batches to batches of `sizes`, in turn:
/// range(6).batch(2).rebatch(3) = 0 1 2 | 3 4 5. A size of 0 makes an empty batch.
///
/// Rows that come from one input batch are viewed; others are copied once. A failed batch costs
/// only its own rows. The rows gathered before it come out as a short batch (which drop_remainder
/// drops), then comes the error, and the next batch has the next size. Throws
/// Error{invalid_argument} for a scalar component, for a negative size, and if all sizes are 0.
NodePtr make_rebatch(NodePtr input, std::vector<std::int64_t> sizes, BatchOptions options);

}  // namespace penstock
