#include "pipeline/remote/pixels.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <penstock/dtype.h>

#include "pipeline/work/image/fused.h"

namespace penstock::remote {
namespace {

/// Multiplies and adds in two steps, as the code that makes images does.
float value_of(std::uint8_t pixel, float scale, float bias) noexcept {
  return static_cast<float>(pixel) * scale + bias;
}

/// Scale and bias of consecutive values, so that one loop handles all channels.
constexpr std::size_t kPeriod = 48;
struct Pattern {
  std::array<float, kPeriod> scale;
  std::array<float, kPeriod> bias;
  std::array<float, kPeriod> back;  // 1 / scale

  /// For the channel `only`, or for `channels` in turn.
  Pattern(const image::OutputFormat& format, std::size_t only, std::size_t channels) noexcept {
    for (std::size_t i = 0; i < kPeriod; ++i) {
      const std::size_t channel = only + i % channels;
      scale[i] = format.scale[channel];
      bias[i] = format.bias[channel];
      back[i] = scale[i] != 0 ? 1 / scale[i] : 0;
    }
  }
};

/// Handles up to `kPeriod` values. Returns true if all are values of pixels.
bool floats_back(const Pattern& pattern, const float* values, std::size_t count,
                 std::uint8_t* pixels) noexcept {
  std::uint32_t differs = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float near = (values[i] - pattern.bias[i]) * pattern.back[i] + 0.5F;
    // A NaN is not the value of a pixel either.
    const float within = near > 0 ? (near < 255 ? near : 255) : 0;
    const auto pixel = static_cast<std::uint8_t>(static_cast<std::int32_t>(within));
    const float again = value_of(pixel, pattern.scale[i], pattern.bias[i]);
    differs |= std::bit_cast<std::uint32_t>(again) ^ std::bit_cast<std::uint32_t>(values[i]);
    pixels[i] = pixel;
  }
  return differs == 0;
}

void floats_of(const Pattern& pattern, const std::uint8_t* pixels, std::size_t count,
               float* values) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    values[i] = value_of(pixels[i], pattern.scale[i], pattern.bias[i]);
}

}  // namespace

Pixels::Pixels(const image::OutputFormat& format, std::size_t count, bool both_ways)
    : format_(format), count_(count) {
  if (format_.dtype == DType::f32) return;
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(format_.channels); ++channel) {
    if (both_ways) pixels_[channel].assign(std::size_t{1} << 16, 0);
    for (std::size_t pixel = 0; pixel < 256; ++pixel) {
      const float value =
          value_of(static_cast<std::uint8_t>(pixel), format_.scale[channel], format_.bias[channel]);
      const std::uint16_t bits = format_.dtype == DType::f16 ? half_from_float(value).bits
                                                             : bfloat16_from_float(value).bits;
      values_[channel][pixel] = bits;
      if (both_ways) pixels_[channel][bits] = static_cast<std::uint8_t>(pixel);
    }
  }
}

bool Pixels::take_back(const std::byte* row, std::uint8_t* pixels) const noexcept {
  const auto channels = static_cast<std::size_t>(format_.channels);
  const bool planes = format_.layout == Layout::chw;
  const std::size_t plane = planes ? count_ / channels : count_;
  if (format_.dtype == DType::f32) {
    const auto* values = reinterpret_cast<const float*>(row);
    for (std::size_t begin = 0; begin < count_; begin += plane) {
      const Pattern pattern(format_, planes ? begin / plane : 0, planes ? 1 : channels);
      for (std::size_t i = begin; i < begin + plane; i += kPeriod)
        if (!floats_back(pattern, values + i, std::min(kPeriod, begin + plane - i), pixels + i))
          return false;
    }
    return true;
  }
  const auto* values = reinterpret_cast<const std::uint16_t*>(row);
  for (std::size_t i = 0; i < count_; ++i) {
    const std::size_t channel = planes ? i / plane : i % channels;
    pixels[i] = pixels_[channel][values[i]];
    if (values_[channel][pixels[i]] != values[i]) return false;
  }
  return true;
}

void Pixels::finish(const std::uint8_t* pixels, std::byte* row) const noexcept {
  const auto channels = static_cast<std::size_t>(format_.channels);
  const bool planes = format_.layout == Layout::chw;
  const std::size_t plane = planes ? count_ / channels : count_;
  if (format_.dtype == DType::f32) {
    auto* const values = reinterpret_cast<float*>(row);
    for (std::size_t begin = 0; begin < count_; begin += plane) {
      const Pattern pattern(format_, planes ? begin / plane : 0, planes ? 1 : channels);
      for (std::size_t i = begin; i < begin + plane; i += kPeriod)
        floats_of(pattern, pixels + i, std::min(kPeriod, begin + plane - i), values + i);
    }
    return;
  }
  auto* const values = reinterpret_cast<std::uint16_t*>(row);
  for (std::size_t i = 0; i < count_; ++i)
    values[i] = values_[planes ? i / plane : i % channels][pixels[i]];
}

PixelsOfRows pixels_of(std::span<const ElementRef> items, const SlotLayout& layout,
                       bool both_ways) {
  PixelsOfRows all(layout.element.size());
  const ProgramPtr& program = items.front().program;
  if (!program ||
      !std::ranges::all_of(items, [&](const ElementRef& item) { return item.program == program; }))
    return all;
  for (std::size_t c = 0; c < all.size(); ++c) {
    const ComponentSpec& component = layout.element[c];
    const image::OutputFormat* made = nullptr;
    for (const Program::Step& step : program->steps())
      if (const auto* const here = image::output_of(*step.op, component.name)) made = here;
    const bool finished = component.dtype == DType::f32 || component.dtype == DType::f16 ||
                          component.dtype == DType::bf16;
    if (made == nullptr || !finished || made->dtype != component.dtype) continue;
    if (component.shape.rank() != 3 || component.shape.volume() == 0) continue;
    image::OutputFormat format = *made;
    const std::int64_t channels = component.shape[format.layout == Layout::hwc ? 2 : 0];
    if (channels != 1 && channels != 3) continue;
    format.channels = static_cast<int>(channels);
    all[c].emplace(format, static_cast<std::size_t>(component.shape.volume()), both_ways);
  }
  return all;
}

}  // namespace penstock::remote
