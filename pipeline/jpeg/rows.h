// From rows of samples to rows of pixels, by SIMD. The kernels use integers only, so all targets
// give the same bits, which are those of libjpeg-turbo.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::jpeg {

/// All kernels may read and write this many bytes beyond the last sample.
inline constexpr std::size_t kRowSlack = 64;

/// The input of an upsampling kernel. `near` and `far` are rows, of which `near` counts three
/// times. Samples [first, last) are upsampled, and their neighbours on both sides are read. The
/// kernel writes from `out` on.
struct Upsample {
  const std::uint8_t* near = nullptr;
  const std::uint8_t* far = nullptr;
  std::size_t first = 0;
  std::size_t last = 0;
  bool upper = false;  ///< the row of pixels lies above the middle of `near`
  std::uint8_t* out = nullptr;
};

struct RowKernels {
  /// Makes two pixels of each sample in a row: 3/4 of it and 1/4 of a neighbour.
  void (*columns)(const Upsample&);
  /// Does the same with both rows.
  void (*both)(const Upsample&);
  /// Mixes both rows, one pixel for each sample.
  void (*rows)(const Upsample&);
  /// Converts YCbCr (JFIF: BT.601, full range) to interleaved RGB. Writes up to 3 x kRowSlack bytes
  /// beyond the end.
  void (*to_rgb)(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr,
                 std::size_t count, std::uint8_t* out);
  /// Interleaves three planes. Writes beyond the end likewise.
  void (*interleave)(const std::uint8_t* r, const std::uint8_t* g, const std::uint8_t* b,
                     std::size_t count, std::uint8_t* out);
};

/// Returns the kernels for the machine's best target.
const RowKernels& row_kernels();

/// Repeats each of the samples [first, last) `times` times.
void repeat_columns(const std::uint8_t* row, std::size_t first, std::size_t last, std::size_t times,
                    std::uint8_t* out) noexcept;

}  // namespace penstock::jpeg
