// Batches that are all equally large, and equally many in every shard.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Behind a batch stage of static row shapes. Short batches are filled up with zeros (empty byte
/// strings) behind `valid_rows`, and whole batches of padding follow until there are as many as the
/// elements would make without errors: range(7).shard(2, i).batch(2) gives 2 batches in both
/// shards. The count is known if nothing but maps and prefetches stands between the batch and a
/// shard, or if the batch's cardinality is. Throws Error{invalid_argument} saying what is not so.
NodePtr make_pad_batches(NodePtr input);

}  // namespace penstock
