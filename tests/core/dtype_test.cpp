#include <penstock/dtype.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/errors.h"

namespace penstock {
namespace {

// IEEE 754 by arithmetic, independent of bit tricks: a half is mantissa * 2^exponent.
double value_of_half(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const int mantissa = static_cast<int>(bits & 1023);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return sign *
         (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

TEST(DType, NamesOfAllTypes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  }
  test::expect_error(ErrorCode::invalid_argument, "unknown dtype 'float'",
                     [] { dtype_from_name("float"); });
  test::expect_error(ErrorCode::invalid_argument, "u8, i8", [] { dtype_from_name(""); });
}

TEST(DType, Sizes) {
  EXPECT_EQ(size_of(DType::u8), 1U);
  EXPECT_EQ(size_of(DType::boolean), sizeof(bool));
  EXPECT_EQ(size_of(DType::bf16), 2U);
  EXPECT_EQ(size_of(DType::f32), 4U);
  EXPECT_EQ(size_of(DType::f64), 8U);
  EXPECT_EQ(size_of(DType::bytes), sizeof(std::string_view));
  EXPECT_EQ(dtype_of<std::string_view>, DType::bytes);
}

TEST(Half, EveryValueToFloatAndBack) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const float value = float_from_half(half);
    ASSERT_TRUE(same(value, value_of_half(bits))) << std::hex << bits;
    const unsigned back = half_from_float(value).bits;
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(value_of_half(back))) << std::hex << bits;
      ASSERT_EQ(back & 0x8000, bits & 0x8000);
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

// Between two neighbours lies their middle: below it the lower is nearer, above it the upper, on it
// the even one.
TEST(Half, TiesToEven) {
  for (unsigned sign : {0U, 0x8000U}) {
    for (unsigned bits = 0; bits < 0x7c00; ++bits) {
      const double low = value_of_half(bits);
      const double high = bits == 0x7bff ? 65536.0 : value_of_half(bits + 1);
      const float middle = static_cast<float>((low + high) / 2);
      const float direction = std::numeric_limits<float>::infinity();
      const float sides[3] = {std::nextafter(middle, -direction), middle,
                              std::nextafter(middle, direction)};
      const unsigned expected[3] = {bits, bits + (bits & 1), bits + 1};
      for (int i = 0; i < 3; ++i) {
        const float value = sign == 0 ? sides[i] : -sides[i];
        ASSERT_EQ(half_from_float(value).bits, expected[i] | sign) << value;
      }
    }
  }
}

TEST(Half, ExtremesOfFloat) {
  EXPECT_EQ(half_from_float(1e10F).bits, 0x7c00);
  EXPECT_EQ(half_from_float(-std::numeric_limits<float>::max()).bits, 0xfc00);
  EXPECT_EQ(half_from_float(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(half_from_float(-0.0F).bits, 0x8000);
  // A NaN whose set bits are all in the part that is dropped must not become infinity.
  EXPECT_TRUE(std::isnan(float_from_half(half_from_float(std::bit_cast<float>(0x7f800001U)))));
}

TEST(BFloat16, EveryValueToFloatAndBack) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_bfloat16({static_cast<std::uint16_t>(bits)});
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), bits << 16);
    const unsigned back = bfloat16_from_float(value).bits;
    ASSERT_EQ(back, std::isnan(value) ? bits | 0x40 : bits);
  }
}

TEST(BFloat16, TiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    for (std::uint32_t sign : {0U, 0x8000U}) {
      const std::uint32_t whole = (bits | sign) << 16;
      const auto rounded = [&](std::uint32_t rest) {
        return bfloat16_from_float(std::bit_cast<float>(whole | rest)).bits;
      };
      ASSERT_EQ(rounded(0x7fff), bits | sign);
      ASSERT_EQ(rounded(0x8000), (bits + (bits & 1)) | sign);
      ASSERT_EQ(rounded(0x8001), (bits + 1) | sign);
    }
  }
  EXPECT_TRUE(
      std::isnan(float_from_bfloat16(bfloat16_from_float(std::bit_cast<float>(0x7f800001U)))));
}

}  // namespace
}  // namespace penstock
