// Access to the one number of a tensor, whatever its dtype.
#pragma once

#include <cstdint>

#include <penstock/tensor.h>

namespace penstock::towers {

/// True for integers of any size.
bool is_integer(DType dtype) noexcept;
/// Returns the tensor's integer. Throws Error{invalid_argument} for another dtype or several
/// values, and Error{mismatch} for a value that does not fit in i64.
std::int64_t integer_in(const Tensor& tensor);
/// Returns the tensor's number: an integer, f32 or f64. Throws as `integer_in` does.
double number_in(const Tensor& tensor);

}  // namespace penstock::towers
