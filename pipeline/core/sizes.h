// Sizes that are counted without wrapping around.
#pragma once

#include <cstddef>
#include <cstdint>

#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock {

/// What is too large to be counted counts as UINT64_MAX, which no budget has room for.
inline std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) noexcept {
  return __builtin_add_overflow(a, b, &a) ? UINT64_MAX : a;
}
inline std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) noexcept {
  return __builtin_mul_overflow(a, b, &a) ? UINT64_MAX : a;
}

/// Bytes of a contiguous tensor, without the text of byte strings. Throws Error{invalid_argument}
/// for a shape that is not known, Error{out_of_range} for one that is too large.
std::size_t bytes_of(DType dtype, const Shape& shape);

}  // namespace penstock
