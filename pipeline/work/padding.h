// The values that tensors are padded with.
#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/dtype.h>

namespace penstock {

/// Writes `value` `count` times; for byte strings the empty one. REQUIRES: can_hold(dtype, value).
void fill_values(DType dtype, double value, std::byte* out, std::int64_t count);

/// True if tensors of `dtype` can hold `value` as it is; byte strings are padded with nothing.
bool can_hold(DType dtype, double value);

}  // namespace penstock
