// The last step: planes of u8 become a row of the output, normalised, cast and in its layout.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <penstock/image.h>

#include "pipeline/image/resize.h"

namespace penstock::image {

/// The format of the output.
struct OutputFormat {
  DType dtype = DType::u8;  ///< u8, f32, f16 or bf16
  Layout layout = Layout::hwc;
  int channels = 3;
  /// Each value becomes value x scale + bias, by channel. u8 stays as it is.
  std::array<float, 3> scale{1, 1, 1};
  std::array<float, 3> bias{0, 0, 0};
  /// Writes whole cache lines of planes past the cache. For images so large that a batch of them
  /// does not fit into it anyway.
  bool stream = false;
};

/// The row kernels of one SIMD target. Look them up once for each image, not for each row.
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

/// Returns the kernels for outputs of this dtype: u8, f32, f16 or bf16.
RowKernels row_kernels(DType dtype) noexcept;

/// Call it after the last row, before another thread is told of the image. Rows may have been
/// written past the cache, and the usual synchronisation of threads does not order such writes.
void finish_image() noexcept;

}  // namespace penstock::image
