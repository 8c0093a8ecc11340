// A stage that repeats its input.
#pragma once

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns a stage that makes `count` passes over the input, or infinitely many if `count` is
/// negative. Each pass is complete before the next begins and draws its own random numbers.
/// Elements of different passes have different ordinals. An infinite repeat ends at the first pass
/// that gives nothing, so that an empty input cannot spin.
NodePtr make_repeat(NodePtr input, std::int64_t count);

}  // namespace penstock
