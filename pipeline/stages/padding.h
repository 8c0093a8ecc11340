// Padding values.
#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/dtype.h>

namespace penstock {

/// Writes `value` `count` times, or empty byte strings. REQUIRES: can_hold(dtype, value).
void fill_values(DType dtype, double value, std::byte* out, std::int64_t count);

/// True if `dtype` can represent `value` exactly. Byte strings are only padded with empty ones.
bool can_hold(DType dtype, double value);

}  // namespace penstock
