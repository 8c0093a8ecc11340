// From rows of samples to rows of pixels, by SIMD. Integers throughout: all targets give the same
// bits, which are libjpeg-turbo's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::jpeg {

/// All kernels may read and write this many bytes beyond the last sample that they are asked for.
inline constexpr std::size_t kRowSlack = 64;

/// `near` and `far` are rows of which `near` counts three times; samples [first, last) are
/// upsampled, and their neighbours on both sides are read. Writes from `out` on.
struct Upsample {
  const std::uint8_t* near = nullptr;
  const std::uint8_t* far = nullptr;
  std::size_t first = 0;
  std::size_t last = 0;
  bool upper = false;  ///< the pixels' row lies above the middle of `near`
  std::uint8_t* out = nullptr;
};

struct RowKernels {
  /// Each sample becomes two pixels of a row: 3/4 and 1/4 of its neighbour.
  void (*columns)(const Upsample&);
  /// The same with both rows.
  void (*both)(const Upsample&);
  /// Both rows, one pixel a sample.
  void (*rows)(const Upsample&);
  /// YCbCr (JFIF: BT.601, full range) to interleaved RGB; writes up to 3 x kRowSlack bytes beyond.
  void (*to_rgb)(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr,
                 std::size_t count, std::uint8_t* out);
  /// Interleaves three planes, likewise.
  void (*interleave)(const std::uint8_t* r, const std::uint8_t* g, const std::uint8_t* b,
                     std::size_t count, std::uint8_t* out);
};

/// For the machine's best target.
const RowKernels& row_kernels();

/// Each of samples [first, last) `times` times.
void repeat_columns(const std::uint8_t* row, std::size_t first, std::size_t last, std::size_t times,
                    std::uint8_t* out) noexcept;

}  // namespace penstock::jpeg
