#include "pipeline/stages/padding.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace penstock {
namespace {

template <typename T, typename Convert>
void fill_as(std::byte* out, std::int64_t count, Convert convert) {
  std::fill_n(reinterpret_cast<T*>(out), count, convert());
}

}  // namespace

void fill_values(DType dtype, double value, std::byte* out, std::int64_t count) {
  switch (dtype) {
    case DType::u8:
      return fill_as<std::uint8_t>(out, count, [&] { return static_cast<std::uint8_t>(value); });
    case DType::i8:
      return fill_as<std::int8_t>(out, count, [&] { return static_cast<std::int8_t>(value); });
    case DType::u16:
      return fill_as<std::uint16_t>(out, count, [&] { return static_cast<std::uint16_t>(value); });
    case DType::i16:
      return fill_as<std::int16_t>(out, count, [&] { return static_cast<std::int16_t>(value); });
    case DType::u32:
      return fill_as<std::uint32_t>(out, count, [&] { return static_cast<std::uint32_t>(value); });
    case DType::i32:
      return fill_as<std::int32_t>(out, count, [&] { return static_cast<std::int32_t>(value); });
    case DType::u64:
      return fill_as<std::uint64_t>(out, count, [&] { return static_cast<std::uint64_t>(value); });
    case DType::i64:
      return fill_as<std::int64_t>(out, count, [&] { return static_cast<std::int64_t>(value); });
    case DType::f16:
      return fill_as<Half>(out, count, [&] { return half_from_float(static_cast<float>(value)); });
    case DType::bf16:
      return fill_as<BFloat16>(out, count,
                               [&] { return bfloat16_from_float(static_cast<float>(value)); });
    case DType::f32:
      return fill_as<float>(out, count, [&] { return static_cast<float>(value); });
    case DType::f64:
      return fill_as<double>(out, count, [&] { return value; });
    case DType::boolean:
      return fill_as<bool>(out, count, [&] { return value != 0; });
    case DType::bytes:
      return fill_as<std::string_view>(out, count, [] { return std::string_view(); });
  }
}

bool can_hold(DType dtype, double value) {
  const auto whole = [value](double low, double high) {
    return value >= low && value < high && value == std::trunc(value);
  };
  switch (dtype) {
    case DType::boolean:
      return whole(0, 2);
    case DType::u8:
      return whole(0, 0x1p8);
    case DType::i8:
      return whole(-0x1p7, 0x1p7);
    case DType::u16:
      return whole(0, 0x1p16);
    case DType::i16:
      return whole(-0x1p15, 0x1p15);
    case DType::u32:
      return whole(0, 0x1p32);
    case DType::i32:
      return whole(-0x1p31, 0x1p31);
    case DType::u64:
      return whole(0, 0x1p64);
    case DType::i64:
      return whole(-0x1p63, 0x1p63);
    case DType::bytes:
      return value == 0;
    default:
      return true;
  }
}

}  // namespace penstock
