// From samples to pixels: upsampling and color conversion. Gives the same bits as
// pipeline/jpeg/rows.h. Source of the weights, roundings and constants: libjpeg's jdsample and
// jdcolor.
#pragma once

#include <cstdint>

#include "pipeline/image/device/plan.h"

namespace penstock::reconstruct {

/// The samples of a component. Beyond the edges, the samples of the edges are repeated.
struct Samples {
  const jpeg::DeviceStrip* strip = nullptr;
  const std::uint8_t* work = nullptr;

  PENSTOCK_BOTH int operator()(int y, int x) const {
    const jpeg::DeviceStrip& s = *strip;
    const int row = both::clamp(y, 0, s.height - 1) - s.first_row * s.side;
    const int column = both::clamp(x, 0, s.width - 1) - s.first_block * s.side;
    // All samples that a pixel of the region needs are within these bounds. The clamp keeps every
    // other read within them, too.
    const int rows = (s.last_row - s.first_row) * s.side;
    const std::int64_t at = both::clamp(row, 0, rows - 1) * s.stride +
                            both::clamp<std::int64_t>(column, 0, s.stride - 1);
    return work[s.offset + at];
  }
};

/// Returns the component's value at a pixel of the shrunk image.
PENSTOCK_BOTH inline int upsampled(const Samples& samples, int y, int x) {
  const jpeg::DeviceStrip& strip = *samples.strip;
  const int beside = x % 2 == 0 ? x / 2 - 1 : x / 2 + 1;
  const int far = y % 2 == 0 ? y / 2 - 1 : y / 2 + 1;
  switch (strip.upsampling) {
    case jpeg::Upsampling::none:
      return samples(y, x);
    case jpeg::Upsampling::columns:
      return (3 * samples(y, x / 2) + samples(y, beside) + (x % 2 == 0 ? 1 : 2)) >> 2;
    case jpeg::Upsampling::rows:
      return (3 * samples(y / 2, x) + samples(far, x) + (y % 2 == 0 ? 1 : 2)) >> 2;
    case jpeg::Upsampling::both: {
      const auto sum = [&](int i) { return 3 * samples(y / 2, i) + samples(far, i); };
      return (3 * sum(x / 2) + sum(beside) + (x % 2 == 0 ? 8 : 7)) >> 4;
    }
    default:
      return samples(y / strip.down, x / strip.across);
  }
}

struct Pixel {
  std::uint8_t values[3] = {};
};

PENSTOCK_BOTH inline std::uint8_t clamp_sample(int value) {
  return static_cast<std::uint8_t>(both::clamp(value, 0, 255));
}

/// Returns a pixel of the shrunk image: gray in `values[0]`, or RGB.
PENSTOCK_BOTH inline Pixel pixel_at(const jpeg::DevicePlan& plan, const jpeg::DeviceLayout& layout,
                                    const std::uint8_t* work, int y, int x) {
  const auto part = [&](int c) { return upsampled({&layout.strips[c], work}, y, x); };
  // Not an array: an array that is read by an index would be placed in memory.
  const int first = part(0);
  const int second = plan.channels == 3 ? part(1) : 0;
  const int third = plan.channels == 3 ? part(2) : 0;
  Pixel pixel;
  if (plan.channels == 3 && plan.color == 1) {
    const int blue = second - 128;
    const int red = third - 128;
    pixel.values[0] = clamp_sample(first + ((91881 * red + 32768) >> 16));
    pixel.values[1] = clamp_sample(first + ((-22554 * blue - 46802 * red + 32768) >> 16));
    pixel.values[2] = clamp_sample(first + ((116130 * blue + 32768) >> 16));
  } else {
    pixel.values[0] = static_cast<std::uint8_t>(first);
    pixel.values[1] = static_cast<std::uint8_t>(second);
    pixel.values[2] = static_cast<std::uint8_t>(third);
  }
  return pixel;
}

}  // namespace penstock::reconstruct
