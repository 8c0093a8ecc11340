// Elements stacked into batches.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// range(8).batch(3) = 012 | 345 | 67. Where every component has a fixed size (or is a byte string)
/// elements are written in place into recycled slots; else they are made first and copied once.
/// Shapes that differ are the batch's error, in tf.data's words. An element that fails costs its
/// batch (`fail`) or only itself (`skip`). Throws Error{invalid_argument} unless size > 0.
NodePtr make_batch(NodePtr input, std::int64_t size, BatchOptions options);

/// The same with every component padded to a given shape, -1: to the longest of the batch. Widths
/// differ between batches. An element longer than a fixed dimension is data_loss, or
/// invalid_argument when that is known before.
NodePtr make_padded_batch(NodePtr input, std::int64_t size, PaddedBatchOptions options);

/// Stacks the values of a group; shapes that differ are an error in tf.data's words.
std::shared_ptr<const GatherOp> make_stack_op();
/// Pads the values of a group to these shapes, one for each component.
std::shared_ptr<const GatherOp> make_pad_op(std::vector<Shape> shapes, std::vector<double> values);
/// Fills in what was not given of `options` for such elements. Throws Error{invalid_argument} for
/// what does not fit them.
PaddedBatchOptions complete_padding(std::string_view stage, const Spec& spec,
                                    PaddedBatchOptions options);

/// True if `spec`'s batches can live in a slot: each component of fixed size, or a scalar byte
/// string.
bool fits_slot(const Spec& spec) noexcept;

/// Batches of `size` that so many elements make; elements may be infinite or unknown.
std::int64_t batches_in(std::int64_t elements, std::int64_t size, bool drop_remainder);

/// The spec of batches of such elements.
Spec batched(const Spec& spec, std::int64_t rows);

}  // namespace penstock
