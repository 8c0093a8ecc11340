// The steps from a packed image or a JPEG to a row of the output, for the host and for CUDA. Each
// step computes one value, or a row of blocks with a team. Gives the same bits as pipeline/image.
#pragma once

#include <cstdint>

#include "staging/finish_functor.h"
#include "staging/reconstruct/decoded_blocks.h"
#include "staging/reconstruct/entropy.h"
#include "staging/reconstruct/expand.h"
#include "staging/reconstruct/pixels.h"

namespace penstock::reconstruct {

/// A batch of packed images. Plain data, passed to kernels by value.
struct Batch {
  /// The start of each image's packed bytes, and the end of the last.
  const std::uint64_t* offsets = nullptr;
  const std::uint8_t* packed = nullptr;
  const jpeg::DevicePlan* plans = nullptr;
  std::uint8_t* work = nullptr;  ///< kImageWork bytes for each image
  void* out = nullptr;           ///< null: JPEGs are decoded, and nothing is made of them
  /// 1: there may be plans for JPEGs. Otherwise the output of such plans is black.
  std::int32_t jpegs = 0;
  /// If it is not null: gets the jpeg::PlanFit of each image, if `jpegs` is 1. A JPEG whose fit is
  /// not `fits` has to be decoded by the host. It says nothing of other kinds.
  std::int32_t* fits = nullptr;
  std::int64_t count = 0;
  std::int32_t height = 0;
  std::int32_t width = 0;
  std::int32_t channels = 0;
  std::int32_t channels_first = 0;
  /// 1: the output is the pixels as bytes, and the members below are unused.
  std::int32_t bytes = 0;
  FinishType type = FinishType::f32;
  float scale[3] = {};
  float bias[3] = {};
};

/// The layout comes first in the working memory of an image.
inline constexpr std::int64_t kLayoutBytes = (sizeof(jpeg::DeviceLayout) + 255) / 256 * 256;
inline constexpr std::int64_t kImageWork = kLayoutBytes + jpeg::kDeviceImageBytes;

/// One image of a batch.
struct Image {
  const jpeg::DevicePlan* plan = nullptr;
  jpeg::DeviceLayout* layout = nullptr;
  std::uint8_t* work = nullptr;
  Bytes packed;

  /// True if there are pixels to compute.
  PENSTOCK_BOTH bool wanted() const {
    return layout->fit == jpeg::PlanFit::fits && layout->region.height > 0;
  }
  PENSTOCK_BOTH bool wanted(jpeg::PlanKind kind) const { return wanted() && plan->kind == kind; }
};

PENSTOCK_BOTH inline Image image_of(const Batch& batch, std::int64_t i) {
  Image image;
  image.plan = batch.plans + i;
  std::uint8_t* work = batch.work + i * kImageWork;
  image.layout = reinterpret_cast<jpeg::DeviceLayout*>(work);
  image.work = work + kLayoutBytes;
  const std::uint64_t begin = batch.offsets[i];
  const std::uint64_t end = batch.offsets[i + 1];
  constexpr std::uint64_t kMost = 0xffffffffU;
  const std::uint64_t size = end > begin ? end - begin : 0;
  image.packed = {batch.packed + begin, static_cast<std::uint32_t>(both::least(size, kMost))};
  return image;
}

// Step 1, for each image.

PENSTOCK_BOTH inline void lay_out(const Batch& batch, std::int64_t i) {
  const Image image = image_of(batch, i);
  jpeg::DeviceLayout& layout = *image.layout;
  layout = jpeg::layout_of(*image.plan, batch.height, batch.width);
  if (image.plan->kind == jpeg::PlanKind::jpeg && image.wanted())
    layout.fit = jpeg::PlanFit::undecoded;
}

// Step 2, for each image, by a team, if there may be JPEGs. Its memory is that of later steps.

template <typename Team>
PENSTOCK_BOTH void decode_entropy(const Team& team, const Batch& batch, std::int64_t i,
                                  EntropyScratch& scratch) {
  const Image image = image_of(batch, i);
  jpeg::DeviceLayout& layout = *image.layout;
  const bool decoded =
      layout.fit == jpeg::PlanFit::undecoded &&
      decode_scan(team, scan_work_of(image.plan, &layout, image.work), image.packed, scratch);
  team.each(1, [&](int) {
    if (decoded) layout.fit = jpeg::PlanFit::fits;
    if (batch.fits != nullptr) batch.fits[i] = static_cast<std::int32_t>(layout.fit);
  });
}

// Step 3, for each wanted image and each of these samples.

PENSTOCK_BOTH inline std::int64_t sample_count(const Image& image) {
  return image.plan->resized == 0
             ? 0
             : std::int64_t{image.plan->window.height} + image.plan->window.width;
}

/// Returns the weights of an entry, which follow it in memory.
PENSTOCK_BOTH inline std::int16_t* weights_behind(std::uint8_t* entry) {
  return reinterpret_cast<std::int16_t*>(entry + sizeof(jpeg::DeviceWeights));
}

PENSTOCK_BOTH inline void weigh_sample(const Image& image, std::int64_t k) {
  const jpeg::DeviceLayout& layout = *image.layout;
  const std::int32_t rows = image.plan->window.height;
  const bool down = k < rows;
  const auto i = static_cast<std::int32_t>(down ? k : k - rows);
  const image::Axis& axis = down ? layout.rows : layout.columns;
  const image::Scaling scaling = image::scaling_of(axis);
  const image::Taps taps = image::taps_of(axis, scaling, i);
  std::uint8_t* entry = image.work + (down ? layout.row_weights + layout.row_entry * i
                                           : layout.column_weights + layout.column_entry * i);
  *reinterpret_cast<jpeg::DeviceWeights*>(entry) = {
      taps.low + (down ? layout.first_row : layout.first_column), taps.high - taps.low};
  image::weigh(taps, scaling, down ? image::row_precision(scaling.scale) : image::Precision::exact,
               weights_behind(entry));
}

// Step 4, for each part, by a team.

/// Returns the first sample of a part.
PENSTOCK_BOTH inline std::uint8_t* target_of(const Image& image, const jpeg::PartPlace& place) {
  const jpeg::DeviceStrip& strip = image.layout->strips[place.component];
  return image.work + strip.offset +
         static_cast<std::int64_t>(place.row - strip.first_row) * strip.side * strip.stride;
}

template <typename Team>
PENSTOCK_BOTH void transform(const Team& team, const Image& image, std::int32_t part,
                             ExpandScratch& scratch) {
  const jpeg::DevicePlan& plan = *image.plan;
  const jpeg::PartPlace place = jpeg::place_of(plan, *image.layout, part);
  const jpeg::DeviceStrip& strip = image.layout->strips[place.component];
  if (strip.needed == 0 || part >= plan.part_count) return;
  const std::uint32_t begin = plan.parts[part];
  const std::uint32_t end = plan.parts[part + 1];
  const bool there = begin <= end && end <= image.packed.size;
  const Bytes bytes{image.packed.data + (there ? begin : 0), there ? end - begin : 0};
  const PackedBlocks blocks{open_streams(bytes, static_cast<std::uint32_t>(strip.blocks)), scratch};
  transform_row_of_blocks(team, strip, blocks, plan.quantisation[place.component],
                          target_of(image, place), scratch);
}

/// The same for a JPEG.
template <typename Team>
PENSTOCK_BOTH void transform_decoded(const Team& team, const Image& image, std::int32_t part,
                                     DecodedScratch& scratch) {
  const jpeg::PartPlace place = jpeg::place_of(*image.plan, *image.layout, part);
  const jpeg::DeviceStrip& strip = image.layout->strips[place.component];
  if (strip.needed == 0) return;
  const auto* const values =
      reinterpret_cast<const std::int16_t*>(image.work + strip.coefficients) +
      std::int64_t{jpeg::kBlockSize} * (place.row - strip.first_row) *
          (strip.last_block - strip.first_block);
  transform_row_of_blocks(team, strip, DecodedBlocks{values, scratch},
                          image.plan->quantisation[place.component], target_of(image, place),
                          scratch);
}

// Step 5, if the image is resized: for each pixel of the region's rows.

PENSTOCK_BOTH inline std::int64_t mixed_count(const Image& image) {
  return image.plan->resized == 0
             ? 0
             : std::int64_t{image.layout->region.height} * image.plan->window.width;
}

PENSTOCK_BOTH inline void mix_columns(const Image& image, std::int32_t y, std::int32_t x) {
  const jpeg::DevicePlan& plan = *image.plan;
  const jpeg::DeviceLayout& layout = *image.layout;
  std::uint8_t* entry = image.work + layout.column_weights + layout.column_entry * x;
  const auto taps = *reinterpret_cast<const jpeg::DeviceWeights*>(entry);
  const std::int16_t* weights = weights_behind(entry);
  const int bits =
      image::weight_bits(image::scaling_of(layout.columns).scale, image::Precision::exact);
  std::int32_t sums[3] = {1 << (bits - 1), 1 << (bits - 1), 1 << (bits - 1)};
  for (int t = 0; t < taps.used; ++t) {
    const Pixel pixel = pixel_at(plan, layout, image.work, layout.region.top + y,
                                 layout.region.left + taps.low + t);
    for (int c = 0; c < 3; ++c) sums[c] += weights[t] * pixel.values[c];
  }
  const std::int64_t plane = mixed_count(image);
  const std::int64_t k = std::int64_t{y} * plan.window.width + x;
  for (int c = 0; c < 3; ++c) {
    if (c < plan.channels)
      image.work[layout.mixed + c * plane + k] = static_cast<std::uint8_t>(sums[c] >> bits);
  }
}

// Step 6, for each pixel of each image.

/// Returns a pixel of the window of a resized image, in the JPEG's channels.
PENSTOCK_BOTH inline Pixel mix_rows(const Image& image, std::int32_t y, std::int32_t x) {
  const jpeg::DevicePlan& plan = *image.plan;
  const jpeg::DeviceLayout& layout = *image.layout;
  std::uint8_t* entry = image.work + layout.row_weights + layout.row_entry * y;
  const auto taps = *reinterpret_cast<const jpeg::DeviceWeights*>(entry);
  const std::int16_t* weights = weights_behind(entry);
  const std::int64_t plane = mixed_count(image);
  const double scale = image::scaling_of(layout.rows).scale;
  const image::Precision precision = image::row_precision(scale);
  const int bits = image::weight_bits(scale, precision);
  const auto mixed = [&](int c) {
    const std::uint8_t* rows =
        image.work + layout.mixed + c * plane + std::int64_t{taps.low} * plan.window.width + x;
    std::int32_t sum = 0;
    if (precision == image::Precision::exact) {
      for (int t = 0; t < taps.used; ++t)
        sum += weights[t] * rows[static_cast<std::int64_t>(t) * plan.window.width];
      return static_cast<std::uint8_t>((sum + (1 << (bits - 1))) >> bits);
    }
    // As on the host: products are rounded one by one, and sums saturate.
    for (int t = 0; t < taps.used; ++t) {
      const std::int32_t value = rows[static_cast<std::int64_t>(t) * plan.window.width] << 7;
      sum = both::least(sum + ((value * weights[t] + 0x4000) >> 15), 32767);
    }
    return static_cast<std::uint8_t>(both::least(sum + 64, 32767) >> 7);
  };
  Pixel pixel;
  pixel.values[0] = mixed(0);
  if (plan.channels == 3) {
    pixel.values[1] = mixed(1);
    pixel.values[2] = mixed(2);
  }
  return pixel;
}

PENSTOCK_BOTH inline Pixel finished_pixel(const Batch& batch, const Image& image, std::int32_t y,
                                          std::int32_t x) {
  Pixel pixel;
  const jpeg::DevicePlan& plan = *image.plan;
  if (plan.kind == jpeg::PlanKind::pixels) {
    const auto at = static_cast<std::uint32_t>((y * batch.width + x) * batch.channels);
    for (std::uint32_t c = 0; c < 3; ++c)
      pixel.values[c] = static_cast<std::uint8_t>(image.packed[at + c]);
    return pixel;
  }
  const std::int32_t row = y - plan.top;
  std::int32_t column = x - plan.left;
  if (!image.wanted() || row < 0 || row >= plan.window.height || column < 0 ||
      column >= plan.window.width)
    return pixel;
  if (plan.resized != 0) {
    pixel = mix_rows(image, row, column);
  } else {
    if (plan.mirrored != 0) column = plan.window.width - 1 - column;
    pixel =
        pixel_at(plan, *image.layout, image.work, plan.window.top + row, plan.window.left + column);
  }
  if (plan.channels == 1) pixel.values[1] = pixel.values[2] = pixel.values[0];
  return pixel;
}

PENSTOCK_BOTH inline void finish_pixel(const Batch& batch, std::int64_t i, std::int32_t y,
                                       std::int32_t x) {
  const Image image = image_of(batch, i);
  const std::int64_t pixels = std::int64_t{batch.height} * batch.width;
  const std::int64_t k = std::int64_t{y} * batch.width + x;
  const bool nothing = image.plan->kind == jpeg::PlanKind::nothing;
  const Pixel pixel = finished_pixel(batch, image, y, x);
  for (int c = 0; c < 3; ++c) {
    if (c >= batch.channels) return;
    const std::int64_t at = i * pixels * batch.channels +
                            (batch.channels_first != 0 ? c * pixels + k : k * batch.channels + c);
    if (batch.bytes != 0) {
      static_cast<std::uint8_t*>(batch.out)[at] = pixel.values[c];
    } else {
      const float value = static_cast<float>(pixel.values[c]) * batch.scale[c] + batch.bias[c];
      store(batch.out, at, nothing ? 0 : value, batch.type);
    }
  }
}

}  // namespace penstock::reconstruct
