// Checks of the options of maps that add components.
#pragma once

#include <penstock/map.h>

namespace penstock {

/// Throws Error{invalid_argument} if `options.adds` still needs to be resolved with `resolve_adds`.
void require_resolved(const MapOptions& options);
/// Throws Error{invalid_argument} if `options.adds` is not empty: for callables that write all
/// components of their output, so that `adds` makes no sense.
void refuse_adds(const MapOptions& options);

}  // namespace penstock
