#include "pipeline/jpeg/rows.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pipeline/jpeg/rows.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace penstock::jpeg {
namespace HWY_NAMESPACE {
namespace {

// Source of the weights, roundings and constants: libjpeg's jdsample and jdcolor.

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_HAVE_SCALABLE

std::uint8_t clamp(int value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0, 255));
}

void columns(const Upsample& u) {
  std::uint8_t* out = u.out;
  for (std::size_t i = u.first; i < u.last; ++i) {
    const int three = 3 * u.near[i];
    *out++ =
        static_cast<std::uint8_t>((three + u.near[static_cast<std::ptrdiff_t>(i) - 1] + 1) >> 2);
    *out++ = static_cast<std::uint8_t>((three + u.near[i + 1] + 2) >> 2);
  }
}

void both(const Upsample& u) {
  const auto sum = [&](std::ptrdiff_t i) { return 3 * u.near[i] + u.far[i]; };
  std::uint8_t* out = u.out;
  for (auto i = static_cast<std::ptrdiff_t>(u.first); i < static_cast<std::ptrdiff_t>(u.last);
       ++i) {
    *out++ = static_cast<std::uint8_t>((3 * sum(i) + sum(i - 1) + 8) >> 4);
    *out++ = static_cast<std::uint8_t>((3 * sum(i) + sum(i + 1) + 7) >> 4);
  }
}

void rows(const Upsample& u) {
  std::uint8_t* out = u.out;
  for (std::size_t i = u.first; i < u.last; ++i)
    *out++ = static_cast<std::uint8_t>((3 * u.near[i] + u.far[i] + (u.upper ? 1 : 2)) >> 2);
}

void to_rgb(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr,
            std::size_t count, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const int blue = cb[i] - 128;
    const int red = cr[i] - 128;
    *out++ = clamp(y[i] + ((91881 * red + 32768) >> 16));
    *out++ = clamp(y[i] + ((-22554 * blue - 46802 * red + 32768) >> 16));
    *out++ = clamp(y[i] + ((116130 * blue + 32768) >> 16));
  }
}

void interleave(const std::uint8_t* r, const std::uint8_t* g, const std::uint8_t* b,
                std::size_t count, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    *out++ = r[i];
    *out++ = g[i];
    *out++ = b[i];
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using Shorts = hn::ScalableTag<std::int16_t>;
using Words = hn::Repartition<std::int32_t, Shorts>;
using Half = hn::Rebind<std::uint8_t, Shorts>;
using ShortVector = hn::Vec<Shorts>;
constexpr std::size_t kLanes = hn::MaxLanes(Shorts());
static_assert(2 * kLanes <= kRowSlack);

HWY_INLINE ShortVector load(const std::uint8_t* from) {
  return hn::PromoteTo(Shorts(), hn::LoadU(Half(), from));
}

HWY_INLINE ShortVector thrice(ShortVector value) {
  return hn::Add(value, hn::Add(value, value));
}

/// Stores two bytes for each lane.
HWY_INLINE void store_pairs(ShortVector even, ShortVector odd, std::uint8_t* out) {
  const hn::Repartition<std::uint8_t, Shorts> bytes;
  hn::StoreU(hn::BitCast(bytes, hn::Or(even, hn::ShiftLeft<8>(odd))), bytes, out);
}

void columns(const Upsample& u) {
  const auto one = hn::Set(Shorts(), 1);
  const auto two = hn::Set(Shorts(), 2);
  std::uint8_t* out = u.out;
  for (const std::uint8_t* at = u.near + u.first; at < u.near + u.last; at += kLanes) {
    const auto three = thrice(load(at));
    store_pairs(hn::ShiftRight<2>(hn::Add(hn::Add(three, load(at - 1)), one)),
                hn::ShiftRight<2>(hn::Add(hn::Add(three, load(at + 1)), two)), out);
    out += 2 * kLanes;
  }
}

void both(const Upsample& u) {
  const auto seven = hn::Set(Shorts(), 7);
  const auto eight = hn::Set(Shorts(), 8);
  std::uint8_t* out = u.out;
  for (std::size_t i = u.first; i < u.last; i += kLanes) {
    const std::uint8_t* near = u.near + i;
    const std::uint8_t* far = u.far + i;
    const auto three = thrice(hn::Add(thrice(load(near)), load(far)));
    const auto before = hn::Add(thrice(load(near - 1)), load(far - 1));
    const auto after = hn::Add(thrice(load(near + 1)), load(far + 1));
    store_pairs(hn::ShiftRight<4>(hn::Add(hn::Add(three, before), eight)),
                hn::ShiftRight<4>(hn::Add(hn::Add(three, after), seven)), out);
    out += 2 * kLanes;
  }
}

void rows(const Upsample& u) {
  const auto bias = hn::Set(Shorts(), u.upper ? 1 : 2);
  std::uint8_t* out = u.out;
  for (std::size_t i = u.first; i < u.last; i += kLanes) {
    const auto sum = hn::Add(thrice(load(u.near + i)), load(u.far + i));
    hn::StoreU(hn::DemoteTo(Half(), hn::ShiftRight<2>(hn::Add(sum, bias))), Half(), out);
    out += kLanes;
  }
}

/// Returns round((18734 red - 22554 blue) / 65536) for pairs of blue and red.
HWY_INLINE hn::Vec<Words> green_of(ShortVector pairs) {
  const Words words;
  const std::uint32_t factors = std::uint32_t{18734} << 16 | (-22554 & 0xffff);
  const ShortVector by = hn::BitCast(Shorts(), hn::Set(hn::RebindToUnsigned<Words>(), factors));
  auto upper = hn::Zero(words);
  auto sum = hn::ReorderWidenMulAccumulate(words, pairs, by, hn::Zero(words), upper);
#if !HWY_ARCH_X86  // there the pairs' sums are complete
  sum = hn::Add(hn::ConcatEven(words, upper, sum), hn::ConcatOdd(words, upper, sum));
#endif
  return hn::ShiftRight<16>(hn::Add(sum, hn::Set(words, 32768)));
}

// Narrows a vector of pixels from 16 to 8 bits, and stores them interleaved.
HWY_INLINE void store_rgb(ShortVector r, ShortVector g, ShortVector b, std::uint8_t* out) {
  hn::StoreInterleaved3(hn::DemoteTo(Half(), r), hn::DemoteTo(Half(), g), hn::DemoteTo(Half(), b),
                        Half(), out);
}

void to_rgb(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr,
            std::size_t count, std::uint8_t* out) {
  const Shorts shorts;
  const auto middle = hn::Set(shorts, 128);
  const auto one = hn::Set(shorts, 1);
  // Computes round(value * factor / 65536). From twice the value, the upper half of the product has
  // one bit more.
  const auto scaled = [&](ShortVector twice, int factor) HWY_ATTR {
    const auto product = hn::MulHigh(twice, hn::Set(shorts, static_cast<std::int16_t>(factor)));
    return hn::ShiftRight<1>(hn::Add(product, one));
  };
  for (std::size_t i = 0; i < count; i += kLanes) {
    const auto luma = load(y + i);
    const auto blue = hn::Sub(load(cb + i), middle);
    const auto red = hn::Sub(load(cr + i), middle);
    const auto blue2 = hn::Add(blue, blue);
    const auto red2 = hn::Add(red, red);
    const auto r = hn::Add(hn::Add(luma, red), scaled(red2, 91881 - 65536));
    const auto b = hn::Add(hn::Add(luma, blue2), scaled(blue2, 116130 - 2 * 65536));
    // -46802 = 18734 - 65536
    const auto mixed =
        hn::ReorderDemote2To(shorts, green_of(hn::InterleaveLower(shorts, blue, red)),
                             green_of(hn::InterleaveUpper(shorts, blue, red)));
    const auto g = hn::Add(hn::Sub(luma, red), mixed);
    store_rgb(r, g, b, out + 3 * i);
  }
}

void interleave(const std::uint8_t* r, const std::uint8_t* g, const std::uint8_t* b,
                std::size_t count, std::uint8_t* out) {
  const Half bytes;
  for (std::size_t i = 0; i < count; i += kLanes)
    hn::StoreInterleaved3(hn::LoadU(bytes, r + i), hn::LoadU(bytes, g + i), hn::LoadU(bytes, b + i),
                          bytes, out + 3 * i);
}

#endif

const RowKernels* kernels_here() {
  static constexpr RowKernels kKernels = {columns, both, rows, to_rgb, interleave};
  return &kKernels;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace penstock::jpeg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::jpeg {

HWY_EXPORT(kernels_here);

const RowKernels& row_kernels() {
  return *HWY_DYNAMIC_DISPATCH(kernels_here)();
}

void repeat_columns(const std::uint8_t* row, std::size_t first, std::size_t last, std::size_t times,
                    std::uint8_t* out) noexcept {
  for (std::size_t i = first; i < last; ++i, out += times) std::fill_n(out, times, row[i]);
}

}  // namespace penstock::jpeg
#endif  // HWY_ONCE
