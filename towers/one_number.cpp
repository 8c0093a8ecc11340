#include "towers/one_number.h"

#include <cmath>
#include <limits>
#include <string>

#include <penstock/error.h>

namespace penstock::towers {
namespace {

/// Calls `with` with the value of an integer dtype; false for another dtype.
template <typename F>
bool with_integer(const Tensor& tensor, const F& with) {
  switch (tensor.dtype()) {
    case DType::u8:
      with(tensor.item<std::uint8_t>());
      return true;
    case DType::i8:
      with(tensor.item<std::int8_t>());
      return true;
    case DType::u16:
      with(tensor.item<std::uint16_t>());
      return true;
    case DType::i16:
      with(tensor.item<std::int16_t>());
      return true;
    case DType::u32:
      with(tensor.item<std::uint32_t>());
      return true;
    case DType::i32:
      with(tensor.item<std::int32_t>());
      return true;
    case DType::u64:
      with(tensor.item<std::uint64_t>());
      return true;
    case DType::i64:
      with(tensor.item<std::int64_t>());
      return true;
    default:
      return false;
  }
}

[[noreturn]] void refuse(const char* wanted, const Tensor& tensor) {
  throw Error(ErrorCode::invalid_argument,
              std::string("expected ") + wanted + ", got " + std::string(name_of(tensor.dtype())));
}

}  // namespace

bool is_integer(DType dtype) noexcept {
  return dtype <= DType::i64;
}

std::int64_t integer_in(const Tensor& tensor) {
  std::int64_t value = 0;
  const bool found = with_integer(tensor, [&value](auto number) {
    if (number > 0 && static_cast<std::uint64_t>(number) >
                          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw Error(ErrorCode::mismatch, std::to_string(number) + " is beyond i64");
    value = static_cast<std::int64_t>(number);
  });
  if (!found) refuse("an integer", tensor);
  return value;
}

double number_in(const Tensor& tensor) {
  if (tensor.dtype() == DType::f32) return static_cast<double>(tensor.item<float>());
  if (tensor.dtype() == DType::f64) return tensor.item<double>();
  double value = 0;
  if (!with_integer(tensor, [&value](auto number) { value = static_cast<double>(number); }))
    refuse("a number", tensor);
  return value;
}

}  // namespace penstock::towers
