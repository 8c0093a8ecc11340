// The inner loops of the resize, compiled for every SIMD target and chosen at run time. They use
// integers only, so all targets give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hwy/aligned_allocator.h>

#include "pipeline/image/filter.h"

namespace penstock::image {

/// Returns the pixels in one plane of an intermediate row, including padding.
constexpr std::size_t plane_width(int width) noexcept {
  return (static_cast<std::size_t>(width) + 15) / 16 * 16;
}

/// Returns the values in an intermediate row of `channels` planes, including padding.
constexpr std::size_t planes_width(int width, int channels) noexcept {
  return (plane_width(width) * static_cast<std::size_t>(channels) + 63) / 64 * 64;
}

/// A filter in the order in which a kernel of one SIMD target reads it.
class HorizontalPass {
 public:
  using Run = void (*)(const HorizontalPass&, const std::uint8_t*, std::int16_t*);

  /// Prepares for rows of 1 or 3 channels that hold the pixels of the filter's span. Keeps its
  /// memory. REQUIRES: `filter` is exact and outlives the pass.
  void prepare(const Filter& filter, int channels);
  /// Resizes an interleaved row that starts at the span's first pixel, followed by kRowPadding
  /// readable bytes. Writes planes of plane_width(filter.count()) values, each rounded to 8 bits
  /// and shifted left by 7.
  void run(const std::uint8_t* row, std::int16_t* planes) const { run_(*this, row, planes); }

  // Used by the kernels only.
  const Filter* filter = nullptr;
  int channels = 0;
  int chunks = 0;                                ///< groups of four taps
  hwy::AlignedFreeUniquePtr<std::byte[]> table;  ///< in the kernel's own layout
  std::size_t table_size = 0;

  /// Makes `table` at least this large and returns it.
  std::byte* reserve(std::size_t bytes);

 private:
  Run run_ = nullptr;
  std::uint64_t version_ = 0;
  std::int64_t target_ = 0;
};

/// A kernel that mixes filter.taps() rows of `size` values (a multiple of 64), as HorizontalPass
/// writes them. It uses the weights of output row `i`, and rounds to 8 bits.
using VerticalPass = void (*)(const Filter& filter, int i, const std::int16_t* const* rows,
                              std::size_t size, std::uint8_t* out);

/// Returns the kernel for that filter. Look it up once for each image, not for each row.
VerticalPass vertical_pass(const Filter& filter);

}  // namespace penstock::image
