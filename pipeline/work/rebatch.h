// Batches put together anew.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// The rows of the input's batches in batches of `sizes` in turn; a size of 0 makes an empty one.
/// range(6).batch(2).rebatch(3) = 0 1 2 | 3 4 5. Rows that lie in one batch are viewed, others
/// copied once. A batch that failed costs its own rows: what was gathered in front of it comes as a
/// short batch (dropped with drop_remainder), then its error, and then the next size. Throws
/// Error{invalid_argument} for a scalar component, a negative size or sizes that are all 0.
NodePtr make_rebatch(NodePtr input, std::vector<std::int64_t> sizes, BatchOptions options);

}  // namespace penstock
