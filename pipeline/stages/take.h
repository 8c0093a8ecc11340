// Stages that keep the first elements, all but the first, or a range of positions.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that gives the first n elements, or all if n is negative. take(0) never pulls
/// its input. Elements that fail are not counted, so after work that can fail, the values are made
/// first. Records of an indexed source are counted whether they can be read or not, so that take
/// need not read them.
NodePtr make_take(NodePtr input, std::int64_t count);

/// Returns a stage that gives all but the first n elements, or nothing if n is negative, as in
/// tf.data.
NodePtr make_skip(NodePtr input, std::int64_t count);

/// Returns a stage that gives the positions [first, first + size) of an indexed input, whether
/// their elements fail or not. The result has an index. REQUIRES: first + size <=
/// input->indexed_size().
NodePtr make_slice(NodePtr input, std::uint64_t first, std::uint64_t size);

}  // namespace penstock
