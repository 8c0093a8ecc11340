// A stage that makes all batches equally large, and their number equal in every shard.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that follows batches with static row shapes: a batch stage, or stages behind one
/// that keep the number of rows (`Node::batch_rows`). It fills short batches up with zeros (empty
/// byte strings) after `valid_rows`. Then whole batches of padding follow, until there are as many
/// batches as the elements would make without errors: range(7).shard(2, i).batch(2) gives 2 batches
/// in both shards. The cardinality of the input must be known. After a shard it must be a function
/// of the shard's cardinality. So only batch, padded_batch, map, shuffle, repeat, take, skip,
/// cache, enumerate, scan, zip, concatenate, select, keep and prefetch may stand between them.
/// Throws Error{invalid_argument} that says which condition fails.
NodePtr make_pad_batches(NodePtr input);

}  // namespace penstock
