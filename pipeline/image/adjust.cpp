#include "pipeline/image/adjust.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pipeline/image/adjust.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace penstock::image {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::Rebind<std::int32_t, Floats>;
using Bytes = hn::Rebind<std::uint8_t, Floats>;
using Vector = hn::Vec<Floats>;

HWY_INLINE Vector set(float value) {
  return hn::Set(Floats(), value);
}

HWY_INLINE Vector load(const std::uint8_t* values) {
  return hn::ConvertTo(Floats(), hn::PromoteTo(Ints(), hn::LoadU(Bytes(), values)));
}

/// Truncates values of [0, 256).
HWY_INLINE void store(Vector values, std::uint8_t* out) {
  hn::StoreU(hn::DemoteTo(Bytes(), hn::ConvertTo(Ints(), values)), Bytes(), out);
}

HWY_INLINE Vector clamped(Vector values, float most) {
  return hn::Min(hn::Max(values, hn::Zero(Floats())), set(most));
}

HWY_INLINE Vector luminance(Vector r, Vector g, Vector b) {
  const Vector sum =
      hn::Add(hn::Add(hn::Mul(set(0.2989F), r), hn::Mul(set(0.587F), g)), hn::Mul(set(0.114F), b));
  return hn::ConvertTo(Floats(), hn::ConvertTo(Ints(), sum));
}

void blend_constant(const Planes& planes, float factor, float constant) {
  const Vector factors = set(factor);
  const Vector other = set((1 - factor) * constant);
  for (int c = 0; c < planes.channels; ++c) {
    std::uint8_t* values = planes.values + static_cast<std::size_t>(c) * planes.stride;
    for (std::size_t i = 0; i < planes.size; i += hn::Lanes(Floats())) {
      store(clamped(hn::Add(hn::Mul(factors, load(values + i)), other), 255), values + i);
    }
  }
}

void blend_gray(const Planes& planes, float factor) {
  const Vector factors = set(factor);
  const Vector rest = set(1 - factor);
  std::uint8_t* red = planes.values;
  std::uint8_t* green = red + planes.stride;
  std::uint8_t* blue = green + planes.stride;
  for (std::size_t i = 0; i < planes.size; i += hn::Lanes(Floats())) {
    const Vector r = load(red + i);
    const Vector g = load(green + i);
    const Vector b = load(blue + i);
    const Vector gray = hn::Mul(rest, luminance(r, g, b));
    store(clamped(hn::Add(hn::Mul(factors, r), gray), 255), red + i);
    store(clamped(hn::Add(hn::Mul(factors, g), gray), 255), green + i);
    store(clamped(hn::Add(hn::Mul(factors, b), gray), 255), blue + i);
  }
}

HWY_INLINE Vector fraction(Vector value) {
  return hn::Sub(value, hn::Floor(value));
}

/// Returns the hue in turns, in [0, 1).
HWY_INLINE Vector hue_of(Vector r, Vector g, Vector b, Vector most, Vector range) {
  const Vector red = hn::Div(hn::Sub(most, r), range);
  const Vector green = hn::Div(hn::Sub(most, g), range);
  const Vector blue = hn::Div(hn::Sub(most, b), range);
  const Vector if_red = hn::Sub(blue, green);
  const Vector if_green = hn::Sub(hn::Add(set(2), red), blue);
  const Vector if_blue = hn::Sub(hn::Add(set(4), green), red);
  const Vector sixths =
      hn::IfThenElse(hn::Eq(most, r), if_red, hn::IfThenElse(hn::Eq(most, g), if_green, if_blue));
  return fraction(hn::Add(hn::Div(sixths, set(6)), set(1)));
}

void shift_hue(const Planes& planes, float shift) {
  std::uint8_t* red = planes.values;
  std::uint8_t* green = red + planes.stride;
  std::uint8_t* blue = green + planes.stride;
  const Vector one = set(1);
  for (std::size_t i = 0; i < planes.size; i += hn::Lanes(Floats())) {
    const Vector r = hn::Div(load(red + i), set(255));
    const Vector g = hn::Div(load(green + i), set(255));
    const Vector b = hn::Div(load(blue + i), set(255));
    const Vector most = hn::Max(hn::Max(r, g), b);
    const Vector range = hn::Sub(most, hn::Min(hn::Min(r, g), b));
    const auto gray = hn::Eq(range, hn::Zero(Floats()));
    const Vector saturation = hn::Div(range, hn::IfThenElse(gray, one, most));
    const Vector hue = hue_of(r, g, b, most, hn::IfThenElse(gray, one, range));

    const Vector sixths = hn::Mul(fraction(hn::Add(hue, set(shift))), set(6));
    const Vector sector = hn::Floor(sixths);
    const Vector f = hn::Sub(sixths, sector);
    const Vector p = clamped(hn::Mul(most, hn::Sub(one, saturation)), 1);
    const Vector q = clamped(hn::Mul(most, hn::Sub(one, hn::Mul(saturation, f))), 1);
    const Vector t = clamped(hn::Mul(most, hn::Sub(one, hn::Mul(saturation, hn::Sub(one, f)))), 1);
    const auto is = [&](int n) HWY_ATTR { return hn::Eq(sector, set(static_cast<float>(n))); };
    const auto is_1 = is(1);
    const auto is_2 = is(2);
    const auto is_3 = is(3);
    const auto is_4 = is(4);
    const auto is_5 = is(5);
    // Sector 6 occurs if a fraction rounds to 1. It is the same as sector 0.
    const Vector new_red = hn::IfThenElse(
        is_1, q, hn::IfThenElse(hn::Or(is_2, is_3), p, hn::IfThenElse(is_4, t, most)));
    const Vector new_green =
        hn::IfThenElse(hn::Or(is_1, is_2), most,
                       hn::IfThenElse(is_3, q, hn::IfThenElse(hn::Or(is_4, is_5), p, t)));
    const Vector new_blue = hn::IfThenElse(
        is_2, t, hn::IfThenElse(hn::Or(is_3, is_4), most, hn::IfThenElse(is_5, q, p)));
    const Vector full = set(255.999F);
    store(hn::Mul(new_red, full), red + i);
    store(hn::Mul(new_green, full), green + i);
    store(hn::Mul(new_blue, full), blue + i);
  }
}

/// Returns the mean luminance. Each value is rounded down, as in a u8 image. The padding counts as
/// zero.
float mean_of(const Planes& planes) {
  constexpr std::size_t kPart = 1U << 20;  // sums of so many values fit 32 bits
  const Ints ints;
  const auto lanes = hn::Iota(ints, 0);
  const std::uint8_t* red = planes.values;
  const std::uint8_t* green = red + planes.stride;
  const std::uint8_t* blue = green + planes.stride;
  std::uint64_t sum = 0;
  for (std::size_t part = 0; part < planes.size; part += kPart) {
    auto sums = hn::Zero(ints);
    const std::size_t end = std::min(part + kPart, planes.size);
    for (std::size_t i = part; i < end; i += hn::Lanes(ints)) {
      const Vector gray = planes.channels == 1
                              ? load(red + i)
                              : luminance(load(red + i), load(green + i), load(blue + i));
      const auto left = hn::Set(ints, static_cast<std::int32_t>(std::min(end - i, kPart)));
      sums = hn::Add(sums, hn::IfThenElseZero(hn::Lt(lanes, left), hn::ConvertTo(ints, gray)));
    }
    HWY_ALIGN std::int32_t each[hn::MaxLanes(ints)];
    hn::Store(sums, ints, each);
    for (std::size_t i = 0; i < hn::Lanes(ints); ++i) sum += static_cast<std::uint64_t>(each[i]);
  }
  return static_cast<float>(static_cast<double>(sum) / static_cast<double>(planes.size));
}

void adjust_all(const Planes& planes, std::span<const Adjustment> adjustments) {
  if (planes.size == 0) return;
  for (const Adjustment& adjustment : adjustments) {
    switch (adjustment.kind) {
      case Adjustment::Kind::brightness:
        blend_constant(planes, adjustment.factor, 0);
        break;
      case Adjustment::Kind::contrast:
        blend_constant(planes, adjustment.factor, mean_of(planes));
        break;
      case Adjustment::Kind::saturation:
        if (planes.channels == 3) blend_gray(planes, adjustment.factor);
        break;
      case Adjustment::Kind::hue:
        if (planes.channels == 3) shift_hue(planes, adjustment.factor);
        break;
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace penstock::image
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::image {

HWY_EXPORT(adjust_all);

void adjust(const Planes& planes, std::span<const Adjustment> adjustments) {
  HWY_DYNAMIC_DISPATCH(adjust_all)(planes, adjustments);
}

}  // namespace penstock::image
#endif  // HWY_ONCE
