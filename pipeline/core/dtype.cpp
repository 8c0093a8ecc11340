#include <penstock/dtype.h>

#include <array>
#include <bit>
#include <string>

#include <penstock/error.h>

namespace penstock {
namespace {

constexpr std::array<std::string_view, kDTypeCount> kNames = {"u8",  "i8",  "u16",  "i16",  "u32",
                                                              "i32", "u64", "i64",  "f16",  "bf16",
                                                              "f32", "f64", "bool", "bytes"};

constexpr std::uint32_t kFloatInfinity = 0x7f800000;

}  // namespace

std::string_view name_of(DType dtype) noexcept {
  return kNames[static_cast<std::size_t>(dtype)];
}

DType dtype_from_name(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
    known += (i == 0 ? "" : ", ") + std::string(kNames[i]);
  }
  throw Error(ErrorCode::invalid_argument,
              "unknown dtype '" + std::string(name) + "'; known are " + known);
}

Half half_from_float(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > kFloatInfinity) {
    return {static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x1ffU))};
  }
  if (magnitude >= 0x47800000U) return {static_cast<std::uint16_t>(sign | 0x7c00U)};
  std::uint32_t mantissa = magnitude;
  int drop = 13;
  if (magnitude < 0x38800000U) {  // below 2^-14: a subnormal half, units of 2^-24
    const int exponent = static_cast<int>(magnitude >> 23);
    if (exponent < 102) return {sign};  // below half of the least subnormal
    mantissa = (magnitude & 0x7fffffU) | 0x800000U;
    drop = 126 - exponent;
  } else {
    mantissa -= 112U << 23;
  }
  const std::uint32_t kept = mantissa >> drop;
  const std::uint32_t rest = mantissa & ((1U << drop) - 1);
  const std::uint32_t half = 1U << (drop - 1);
  const std::uint32_t round = (rest > half || (rest == half && (kept & 1U) != 0)) ? 1 : 0;
  // A carry out of the mantissa raises the exponent, from the largest finite value to infinity.
  return {static_cast<std::uint16_t>(sign | (kept + round))};
}

float float_from_half(Half value) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = value.bits & 0x3ffU;
  if (exponent == 31) return std::bit_cast<float>(sign | kFloatInfinity | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

BFloat16 bfloat16_from_float(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > kFloatInfinity) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};  // a NaN becomes a quiet NaN
  }
  const std::uint32_t rounding = 0x7fffU + ((bits >> 16) & 1U);
  return {static_cast<std::uint16_t>((bits + rounding) >> 16)};
}

float float_from_bfloat16(BFloat16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

}  // namespace penstock
