#include "pipeline/image/finish.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pipeline/image/finish.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>
// After highway.h.
#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace penstock::image {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Multiplies and adds in two steps, so that every target rounds in the same way.
HWY_INLINE float value_of(std::uint8_t pixel, float scale, float bias) {
  return static_cast<float>(pixel) * scale + bias;
}

HWY_INLINE void store(std::uint8_t* out, std::uint8_t pixel, float, float) {
  *out = pixel;
}
HWY_INLINE void store(float* out, std::uint8_t pixel, float scale, float bias) {
  *out = value_of(pixel, scale, bias);
}
HWY_INLINE void store(Half* out, std::uint8_t pixel, float scale, float bias) {
  *out = half_from_float(value_of(pixel, scale, bias));
}
HWY_INLINE void store(BFloat16* out, std::uint8_t pixel, float scale, float bias) {
  *out = bfloat16_from_float(value_of(pixel, scale, bias));
}

#if HWY_TARGET == HWY_SCALAR

template <typename T>
int finish_plane(const std::uint8_t*, int, float, float, bool, T*) {
  return 0;
}
template <typename T>
int finish_pixels(const PlanarRow&, int, const OutputFormat&, T*) {
  return 0;
}
int split_pixels(const std::uint8_t*, int, std::uint8_t*, std::size_t) {
  return 0;
}
int split_mirrored(const std::uint8_t*, int, std::uint8_t*, std::size_t) {
  return 0;
}

#else

using Floats = hn::ScalableTag<float>;
using Ints = hn::Rebind<std::int32_t, Floats>;
using FewBytes = hn::Rebind<std::uint8_t, Floats>;
using FewShorts = hn::Rebind<std::uint16_t, Floats>;
using Pixels = hn::ScalableTag<std::uint8_t>;

HWY_INLINE hn::Vec<Floats> load_values(const std::uint8_t* pixels, hn::Vec<Floats> scale,
                                       hn::Vec<Floats> bias) {
  const auto ints = hn::PromoteTo(Ints(), hn::LoadU(FewBytes(), pixels));
  return hn::Add(hn::Mul(hn::ConvertTo(Floats(), ints), scale), bias);
}

// Rounds as the core does: to nearest, ties to even. There are no NaNs here.
HWY_INLINE hn::Vec<FewShorts> to_bfloat16(hn::Vec<Floats> values) {
  const hn::Rebind<std::uint32_t, Floats> words;
  const auto bits = hn::BitCast(words, values);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff)));
  return hn::DemoteTo(FewShorts(), hn::BitCast(Ints(), hn::ShiftRight<16>(rounded)));
}

HWY_INLINE hn::Vec<FewShorts> to_half(hn::Vec<Floats> values) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Rebind<hwy::float16_t, Floats> halves;
  return hn::BitCast(FewShorts(), hn::DemoteTo(halves, values));
#else
  // Highway's own conversion for the other targets does not guarantee rounding to even.
  HWY_ALIGN float in[hn::MaxLanes(Floats())];
  HWY_ALIGN std::uint16_t out[hn::MaxLanes(Floats())];
  hn::Store(values, Floats(), in);
  for (std::size_t i = 0; i < hn::Lanes(Floats()); ++i) out[i] = half_from_float(in[i]).bits;
  return hn::Load(FewShorts(), out);
#endif
}

HWY_INLINE auto convert(hn::Vec<Floats> values, float*) {
  return values;
}
HWY_INLINE auto convert(hn::Vec<Floats> values, Half*) {
  return to_half(values);
}
HWY_INLINE auto convert(hn::Vec<Floats> values, BFloat16*) {
  return to_bfloat16(values);
}
HWY_INLINE auto tag_of(float*) {
  return Floats();
}
HWY_INLINE auto tag_of(Half*) {
  return FewShorts();
}
HWY_INLINE auto tag_of(BFloat16*) {
  return FewShorts();
}
HWY_INLINE float* lanes_of(float* out) {
  return out;
}
HWY_INLINE std::uint16_t* lanes_of(Half* out) {
  return &out->bits;
}
HWY_INLINE std::uint16_t* lanes_of(BFloat16* out) {
  return &out->bits;
}

// Each function returns how many pixels it processed. The rest is too short for a vector.

// If a vector is shorter than 16 bytes, Highway 1.0 still streams 16 bytes.
template <typename T>
bool can_stream(const T* out, int width) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kVector = hn::MaxLanes(Floats()) * sizeof(T);
  return kVector >= 16 && reinterpret_cast<std::uintptr_t>(out) % kLine == 0 &&
         static_cast<std::size_t>(width) * sizeof(T) % kLine == 0;
}

template <typename T>
int finish_plane(const std::uint8_t* pixels, int width, float scale, float bias, bool stream,
                 T* out) {
  const int lanes = static_cast<int>(hn::Lanes(Floats()));
  const auto scales = hn::Set(Floats(), scale);
  const auto biases = hn::Set(Floats(), bias);
  const auto tag = tag_of(out);
  int x = 0;
  if (stream && can_stream(out, width)) {
    for (; x + lanes <= width; x += lanes) {
      const auto values = convert(load_values(pixels + x, scales, biases), out);
      hn::Stream(values, tag, lanes_of(out + x));
    }
  }
  for (; x + lanes <= width; x += lanes) {
    const auto values = convert(load_values(pixels + x, scales, biases), out);
    hn::StoreU(values, tag, lanes_of(out + x));
  }
  return x;
}

int finish_plane(const std::uint8_t* pixels, int width, float, float, bool, std::uint8_t* out) {
  std::memcpy(out, pixels, static_cast<std::size_t>(width));
  return width;
}

template <typename T>
int finish_pixels(const PlanarRow& row, int width, const OutputFormat& format, T* out) {
  const int lanes = static_cast<int>(hn::Lanes(Floats()));
  int x = 0;
  for (; x + lanes <= width; x += lanes) {
    const auto channel = [&](int c) HWY_ATTR {
      const auto scale = hn::Set(Floats(), format.scale[static_cast<std::size_t>(c)]);
      const auto bias = hn::Set(Floats(), format.bias[static_cast<std::size_t>(c)]);
      return convert(load_values(row.plane(c) + x, scale, bias), out);
    };
    hn::StoreInterleaved3(channel(0), channel(1), channel(2), tag_of(out), lanes_of(out + 3 * x));
  }
  return x;
}

int finish_pixels(const PlanarRow& row, int width, const OutputFormat&, std::uint8_t* out) {
  const int lanes = static_cast<int>(hn::Lanes(Pixels()));
  int x = 0;
  for (; x + lanes <= width; x += lanes) {
    const auto channel = [&](int c) HWY_ATTR { return hn::LoadU(Pixels(), row.plane(c) + x); };
    hn::StoreInterleaved3(channel(0), channel(1), channel(2), Pixels(), out + 3 * x);
  }
  const hn::FixedTag<std::uint8_t, 16> block;
  for (; x + 16 <= width; x += 16) {
    const auto channel = [&](int c) HWY_ATTR { return hn::LoadU(block, row.plane(c) + x); };
    hn::StoreInterleaved3(channel(0), channel(1), channel(2), block, out + 3 * x);
  }
  return x;
}

int split_pixels(const std::uint8_t* pixels, int width, std::uint8_t* planes, std::size_t stride) {
  const hn::FixedTag<std::uint8_t, 16> block;
  int x = 0;
  for (; x + 16 <= width; x += 16) {
    hn::Vec<decltype(block)> r, g, b;
    hn::LoadInterleaved3(block, pixels + 3 * x, r, g, b);
    hn::StoreU(r, block, planes + x);
    hn::StoreU(g, block, planes + stride + static_cast<std::size_t>(x));
    hn::StoreU(b, block, planes + 2 * stride + static_cast<std::size_t>(x));
  }
  return x;
}

int split_mirrored(const std::uint8_t* pixels, int width, std::uint8_t* planes,
                   std::size_t stride) {
  const hn::FixedTag<std::uint8_t, 16> block;
  const auto back = hn::Sub(hn::Set(block, 15), hn::Iota(block, 0));
  int x = 0;
  for (; x + 16 <= width; x += 16) {
    hn::Vec<decltype(block)> r, g, b;
    hn::LoadInterleaved3(block, pixels + 3 * x, r, g, b);
    std::uint8_t* out = planes + (width - x - 16);
    hn::StoreU(hn::TableLookupBytes(r, back), block, out);
    hn::StoreU(hn::TableLookupBytes(g, back), block, out + stride);
    hn::StoreU(hn::TableLookupBytes(b, back), block, out + 2 * stride);
  }
  return x;
}

#endif  // HWY_SCALAR

template <typename T>
void finish(const PlanarRow& row, int width, const OutputFormat& format, std::byte* out,
            std::size_t plane_bytes) {
  if (format.layout == Layout::chw || format.channels == 1) {
    for (int c = 0; c < format.channels; ++c, out += plane_bytes) {
      const float scale = format.scale[static_cast<std::size_t>(c)];
      const float bias = format.bias[static_cast<std::size_t>(c)];
      T* values = reinterpret_cast<T*>(out);
      int x = finish_plane(row.plane(c), width, scale, bias, format.stream, values);
      for (; x < width; ++x) store(values + x, row.plane(c)[x], scale, bias);
    }
    return;
  }
  T* values = reinterpret_cast<T*>(out);
  for (int x = finish_pixels(row, width, format, values); x < width; ++x) {
    for (int c = 0; c < 3; ++c) {
      store(values + 3 * x + c, row.plane(c)[x], format.scale[static_cast<std::size_t>(c)],
            format.bias[static_cast<std::size_t>(c)]);
    }
  }
}

void split_any(const std::uint8_t* pixels, int width, int channels, bool mirrored,
               std::uint8_t* planes, std::size_t stride) {
  if (channels == 1) {
    std::copy_n(pixels, width, planes);
    if (mirrored) std::reverse(planes, planes + width);
    return;
  }
  int x = mirrored ? split_mirrored(pixels, width, planes, stride)
                   : split_pixels(pixels, width, planes, stride);
  for (; x < width; ++x) {
    std::uint8_t* out = planes + (mirrored ? width - 1 - x : x);
    for (std::size_t c = 0; c < 3; ++c) out[c * stride] = pixels[3 * x + static_cast<int>(c)];
  }
}

RowKernels kernels_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {finish<float>, split_any};
    case DType::f16:
      return {finish<Half>, split_any};
    case DType::bf16:
      return {finish<BFloat16>, split_any};
    default:
      return {finish<std::uint8_t>, split_any};
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace penstock::image
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::image {

HWY_EXPORT(kernels_of);

RowKernels row_kernels(DType dtype) noexcept {
  return HWY_DYNAMIC_DISPATCH(kernels_of)(dtype);
}

void finish_image() noexcept {
  hwy::FlushStream();
}

}  // namespace penstock::image
#endif  // HWY_ONCE
