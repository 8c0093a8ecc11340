// Batches of rows of different lengths, without padding.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Each component x whose outermost dimension is unknown becomes the rows' values one after the
/// other, x [total, ...], and x.row_splits i64 [rows + 1]: row r is [splits[r], splits[r + 1]).
/// Components of fixed shape are stacked as in batch. All live in one buffer (byte strings aside).
/// Throws Error{invalid_argument} unless size > 0, or for a component of unknown rank or with an
/// unknown inner dimension.
NodePtr make_ragged_batch(NodePtr input, std::int64_t size, BatchOptions options);

}  // namespace penstock
