// Batches that are all equally large, and equally many in every shard.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// Behind a batch stage of static row shapes. Short batches are filled up with zeros (empty byte
/// strings) behind `valid_rows`, and whole batches of padding follow until there are as many as the
/// elements would make without errors: range(7).shard(2, i).batch(2) gives 2 batches in both
/// shards. The cardinality in front of the batch must be known and, behind a shard, a function of
/// the shard's: what stands between may be map, shuffle, repeat, take, skip, cache, enumerate,
/// scan, zip, concatenate, select or prefetch. Throws Error{invalid_argument} saying what is not
/// so.
NodePtr make_pad_batches(NodePtr input);

}  // namespace penstock
