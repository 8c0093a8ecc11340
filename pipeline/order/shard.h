// Every n-th element, or one run of neighbours of n.
#pragma once

#include <cstdint>
#include <string>

#include "pipeline/order/node.h"

namespace penstock {

/// Keeps element k iff k mod count == index; contiguous: elements [index*c/count,
/// (index+1)*c/count) of c. range(10).shard(3, 0) = 0 3 6 9. Elements that fail are counted like
/// others. Throws Error{invalid_argument} unless 0 <= index < count, or if contiguous and the
/// cardinality is not known.
NodePtr make_shard(NodePtr input, std::int64_t count, std::int64_t index, ShardOptions options);

/// The state of any shard of a dataset of which the elements in front of position `base` have been
/// delivered by others: element base + k is then kept by shard k mod count.
std::string resharded_state(std::uint64_t base);

}  // namespace penstock
