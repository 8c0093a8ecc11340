// Room for elements one behind another.
#pragma once

#include <cstddef>

#include <penstock/element.h>
#include <penstock/source.h>
#include <penstock/spec.h>

namespace penstock {

/// Uninitialised memory for `count` elements: every component [count, ...]. `names` are the spec's.
/// Throws what `memory.allocate` does. REQUIRES: spec.is_fixed_size().
Element make_rows(const Spec& spec, const Names* names, std::size_t count, ReadContext& memory);

}  // namespace penstock
