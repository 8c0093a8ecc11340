// The stage that batches rows of different lengths without padding.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Makes a stage that batches `size` elements at a time. Each component x whose outermost dimension
/// is unknown becomes two. x [total, ...] holds the values of all rows, one row after the other.
/// x.row_splits i64 [rows + 1] says where the rows lie: row r is [splits[r], splits[r + 1]).
/// Components of fixed shape are stacked as in `make_batch`. All of a batch lives in one buffer,
/// except for byte strings. Throws Error{invalid_argument} unless size > 0, and for a component of
/// unknown rank or with an unknown inner dimension.
NodePtr make_ragged_batch(NodePtr input, std::int64_t size, BatchOptions options);

}  // namespace penstock
