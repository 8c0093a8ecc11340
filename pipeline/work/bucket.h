// Batches of elements of similar length.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// tf.data's bucket_by_sequence_length: elements gather in the bucket of their length, and a
/// bucket that is full is padded and comes out; what is left comes at the end in the order of the
/// buckets. With `tokens` a bucket is full when the next element would make its rows times its
/// width exceed them. An element without a place (longer than the last bound with pad_to_boundary,
/// or than all tokens) is an error of its own. Throws Error{invalid_argument} for bounds that do
/// not rise, as many sizes as buckets are not given, or sizes and tokens together.
NodePtr make_bucket_by_length(NodePtr input, BucketOptions options);

}  // namespace penstock
