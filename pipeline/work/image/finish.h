// The last step: planes of u8 become a row of the output, normalised, cast and laid out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <penstock/image.h>

#include "pipeline/work/image/resize.h"

namespace penstock::image {

/// What the output looks like.
struct OutputFormat {
  DType dtype = DType::u8;  ///< u8, f32, f16 or bf16
  Layout layout = Layout::hwc;
  int channels = 3;
  /// Values become value x scale + bias, by channel; u8 stays as it is.
  std::array<float, 3> scale{1, 1, 1};
  std::array<float, 3> bias{0, 0, 0};
  /// Whole cache lines of planes are written past the cache: for images so large that a batch of
  /// them does not fit there anyway.
  bool stream = false;
};

/// The row kernels of one SIMD target: look them up once an image, not once a row.
struct RowKernels {
  /// Writes `width` pixels of a row of planes. HWC: interleaved at `out`. CHW: channel c at `out` +
  /// c x `plane_bytes`. Rounds to nearest even for f16 and bf16.
  void (*finish)(const PlanarRow& row, int width, const OutputFormat& format, std::byte* out,
                 std::size_t plane_bytes);
  /// Splits interleaved pixels (1 or 3 channels) into planes of `plane_stride` values, in reverse
  /// order if `mirrored`.
  void (*split)(const std::uint8_t* pixels, int width, int channels, bool mirrored,
                std::uint8_t* planes, std::size_t plane_stride);
};

/// For outputs of this dtype: u8, f32, f16 or bf16.
RowKernels row_kernels(DType dtype) noexcept;

/// After the last row: makes the writes visible to whoever is told of them. Rows may have been
/// written past the cache, which the usual hand-over between threads does not order.
void finish_image() noexcept;

}  // namespace penstock::image
