// Arithmetic on sizes that does not wrap around.
#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock {

/// A result too large to represent becomes UINT64_MAX, for which no budget has room.
inline std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) noexcept {
  return __builtin_add_overflow(a, b, &a) ? UINT64_MAX : a;
}
inline std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) noexcept {
  return __builtin_mul_overflow(a, b, &a) ? UINT64_MAX : a;
}

/// Returns the bytes of a contiguous tensor, without the text of byte strings. Throws
/// Error{invalid_argument} if the shape is not known, Error{out_of_range} if the size is too large.
std::size_t bytes_of(DType dtype, const Shape& shape);

}  // namespace penstock
