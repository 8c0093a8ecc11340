// A stage that keeps every n-th element, or one of n ranges of neighbours.
#pragma once

#include <cstdint>
#include <string>

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that keeps element k if k mod count == index: range(10).shard(3, 0) = 0 3 6 9. A
/// contiguous shard of c elements keeps [index*c/count, (index+1)*c/count). Elements that fail are
/// counted like others. Throws Error{invalid_argument} unless 0 <= index < count, or if the shard
/// is contiguous and the input has no index.
NodePtr make_shard(NodePtr input, std::int64_t count, std::int64_t index, ShardOptions options);

/// Returns the state of any shard of a dataset whose elements before position `base` were delivered
/// already, by other shards. Shard k mod count then keeps element base + k.
std::string resharded_state(std::uint64_t base);

}  // namespace penstock
