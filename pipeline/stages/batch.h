// Stages that stack elements into batches, and the parts that they share.
#pragma once

#include "pipeline/stage/node.h"
#include "pipeline/stage/program.h"

namespace penstock {

/// Makes a stage that stacks `size` elements at a time: range(8).batch(3) = 012 | 345 | 67.
///
/// If every component has a fixed size or is a scalar byte string, elements are written in place
/// into recycled slots. Otherwise they are made first and copied once. Elements of different shapes
/// are an error of the batch, worded as in tf.data. An element that fails costs its batch (`fail`)
/// or only itself (`skip`). Throws Error{invalid_argument} unless size > 0.
NodePtr make_batch(NodePtr input, std::int64_t size, BatchOptions options);

/// Makes a stage like `make_batch` that pads every component to a given shape. A dimension of -1 is
/// padded to the longest element of the batch, so that widths differ between batches. An element
/// longer than a fixed dimension is Error{data_loss}, or Error{invalid_argument} if the specs tell
/// it when the graph is built.
NodePtr make_padded_batch(NodePtr input, std::int64_t size, PaddedBatchOptions options);

/// Returns an op that stacks the values of a group. Values of different shapes are an error, worded
/// as in tf.data.
std::shared_ptr<const GatherOp> make_stack_op();
/// Returns an op that pads the values of a group to `shapes` with `values`: one of each for each
/// component.
std::shared_ptr<const GatherOp> make_pad_op(std::vector<Shape> shapes, std::vector<double> values);
/// Fills in the options that were not given, for elements of `spec`. `stage` is the name that
/// errors use. Throws Error{invalid_argument} for options that do not fit the elements.
PaddedBatchOptions complete_padding(std::string_view stage, const Spec& spec,
                                    PaddedBatchOptions options);

/// True if batches of `spec` can live in a slot: each component has a fixed size or is a scalar
/// byte string.
bool fits_slot(const Spec& spec) noexcept;

/// Returns how many batches of `size` so many elements make. Negative `elements` (infinite or
/// unknown) are returned as they are.
std::int64_t batches_in(std::int64_t elements, std::int64_t size, bool drop_remainder);

/// Describes batches of `size` rows, of which the last may be shorter, or is dropped.
inline BatchRows rows_of(std::int64_t size, bool drop_remainder) {
  return {.full = size,
          .most = size,
          .fewer = drop_remainder ? BatchRows::Fewer::none : BatchRows::Fewer::last};
}

/// Returns the spec of batches of `rows` such elements.
Spec batched(const Spec& spec, std::int64_t rows);

}  // namespace penstock
