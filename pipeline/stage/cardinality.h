// Arithmetic on cardinalities.
#pragma once

#include <cstdint>

#include <penstock/dataset.h>

namespace penstock {

/// Arithmetic on cardinalities, which may be infinite or unknown.
std::int64_t add_cardinality(std::int64_t a, std::int64_t b) noexcept;
std::int64_t min_cardinality(std::int64_t a, std::int64_t b) noexcept;

}  // namespace penstock
