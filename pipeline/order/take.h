// The first elements, all but them, or some in the middle.
#pragma once

#include "pipeline/order/node.h"

namespace penstock {

/// take(n): the first n elements, all for a negative n. take(0) never pulls its input.
/// Elements that fail are not counted: behind work that can fail, the values are made first.
/// Records of an indexed source are counted whether they can be read or not, so that nothing in
/// front is touched.
NodePtr make_take(NodePtr input, std::int64_t count);

/// skip(n): all but the first n elements; nothing for a negative n, as in tf.data.
NodePtr make_skip(NodePtr input, std::int64_t count);

/// Positions [first, first + size) of an indexed input, whether their elements fail or not; the
/// result is indexed. REQUIRES: first + size <= input->indexed_size().
NodePtr make_slice(NodePtr input, std::uint64_t first, std::uint64_t size);

}  // namespace penstock
