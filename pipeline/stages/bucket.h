// The stage that batches elements of similar length.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Makes tf.data's bucket_by_sequence_length: elements gather in the bucket of their length. A full
/// bucket is padded and comes out as a batch. At the end, the rest comes out in the order of the
/// buckets.
///
/// With `tokens`, a bucket is full when one more element would make its rows times its width exceed
/// `tokens`. An element that fits no bucket is an error of its own: it is longer than the last
/// bound with pad_to_boundary, or longer than `tokens`. Throws Error{invalid_argument} for bounds
/// that do not rise, for a number of sizes that is not the number of buckets, and for sizes
/// together with tokens.
NodePtr make_bucket_by_length(NodePtr input, BucketOptions options);

}  // namespace penstock
