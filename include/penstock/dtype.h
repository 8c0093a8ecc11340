// The types of the values that tensors hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock {

/// The type of one value of a tensor. `bytes` values are byte strings of any length
/// (`std::string_view`).
enum class DType : std::uint8_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  u64,
  i64,
  f16,
  bf16,
  f32,
  f64,
  boolean,
  bytes
};

/// The number of types.
inline constexpr int kDTypeCount = 14;

/// An IEEE binary16, storage only.
struct Half {
  std::uint16_t bits;  ///< sign, 5 bits of exponent, 10 of fraction
};

/// The upper half of an IEEE binary32, storage only.
struct BFloat16 {
  std::uint16_t bits;  ///< sign, 8 bits of exponent, 7 of fraction
};

/// Returns the bytes of one value in a tensor's memory; 16 (a `std::string_view`) for `bytes`.
constexpr std::size_t size_of(DType dtype) noexcept {
  constexpr std::uint8_t kSizes[kDTypeCount] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 16};
  return kSizes[static_cast<std::size_t>(dtype)];
}

/// Returns the name used in specs, errors and TOML: "u8", "f32", "bool", "bytes"…
std::string_view name_of(DType dtype) noexcept;

/// Returns the type of that name. Throws Error{invalid_argument} for an unknown name.
DType dtype_from_name(std::string_view name);

/// Rounds to nearest, ties to even; overflow becomes infinity. Source: IEEE 754-2019, 4.3.1.
Half half_from_float(float value) noexcept;
/// Returns the same value as a float.
float float_from_half(Half value) noexcept;
/// Rounds as `half_from_float` does.
BFloat16 bfloat16_from_float(float value) noexcept;
/// Returns the same value as a float.
float float_from_bfloat16(BFloat16 value) noexcept;

/// The type of a tensor whose values are read as T, as `value`.
template <typename T>
struct DTypeOf;
/// @cond
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::u64;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <>
struct DTypeOf<std::string_view> {
  static constexpr DType value = DType::bytes;
};
/// @endcond

/// The dtype whose values have the type T.
template <typename T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// A type that a tensor's values can be read as.
template <typename T>
concept TensorValue = requires {
  DTypeOf<T>::value;
};

/// The type that a tensor stores a T as. It is T itself, or the fixed-width integer of the same
/// size and sign, such as std::int64_t for long long. A type that a tensor can't store stands for
/// itself.
template <typename T>
struct StoredAs {
  using type = T;  ///< the stored type
};
/// @cond
template <>
struct StoredAs<long long> {
  using type = std::int64_t;
};
template <>
struct StoredAs<unsigned long long> {
  using type = std::uint64_t;
};
/// @endcond
static_assert(sizeof(long long) == sizeof(std::int64_t));
/// The type in which a tensor stores a T.
template <typename T>
using Stored = typename StoredAs<T>::type;

/// False, in a template: for static_assert in a branch that must not be taken.
template <typename...>
inline constexpr bool kNever = false;

}  // namespace penstock
