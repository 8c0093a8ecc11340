// The source of whole numbers.
#pragma once

#include <cstdint>

#include <penstock/source.h>

namespace penstock {

/// {value: i64}: start, start + step, … while below `stop` (above, for a negative step). Throws
/// Error{invalid_argument} for a step of 0.
SourcePtr make_range_source(std::int64_t start, std::int64_t stop, std::int64_t step);

}  // namespace penstock
