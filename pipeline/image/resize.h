// The resize: takes rows of pixels and makes rows of a smaller or larger image while they are in
// the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hwy/aligned_allocator.h>

#include "pipeline/codec/codec.h"
#include "pipeline/image/resize_kernels.h"

namespace penstock::image {

/// A row of planes, one for each channel.
struct PlanarRow {
  const std::uint8_t* values = nullptr;
  std::size_t plane_stride = 0;

  const std::uint8_t* plane(int channel) const noexcept {
    return values + static_cast<std::size_t>(channel) * plane_stride;
  }
};

/// An antialiased bilinear resize in two passes, the horizontal one first. The result is rounded to
/// 8 bits between them, as in Pillow. The same pixels give at most one level of difference from
/// Pillow.
///
/// It holds as many rows as the vertical filter has taps, so a source row is still in the
/// first-level cache when it is used last. Not synchronised. Keeps its memory from one image to the
/// next.
///
///     resizer.begin(rows, columns, 3);
///     for (each source row of [rows.span_begin(), rows.span_end()))
///       { resizer.push(row); while (const PlanarRow out = resizer.pop(); out.values) use(out); }
class Resizer {
 public:
  /// Starts an image. `rows` and `columns` describe both axes.
  void begin(const Axis& rows, const Axis& columns, int channels);

  /// The source pixels that are needed.
  const Filter& rows() const noexcept { return rows_; }
  const Filter& columns() const noexcept { return columns_; }

  /// Takes the next source row of the span: interleaved, from the columns' span on, followed by
  /// kRowPadding readable bytes. REQUIRES: the last call of `pop`, if any, returned no values.
  void push(const std::uint8_t* row);
  /// Returns the next complete row, which is valid until the next call. It has no values if no row
  /// is complete.
  PlanarRow pop();

  /// Returns about how many bytes it keeps.
  std::size_t bytes() const noexcept;
  /// Returns the most bytes that it takes to make `window` of `target` from a crop that is shrunk
  /// by `denominator`.
  static std::uint64_t bytes_for(const Rect& crop, Size target, const Rect& window,
                                 int denominator) noexcept;

 private:
  std::int16_t* slot(int source_row) noexcept;

  Filter rows_;
  Filter columns_;
  HorizontalPass horizontal_;
  VerticalPass vertical_ = nullptr;
  std::size_t plane_ = 0;
  std::size_t width_ = 0;  // values in an intermediate row
  int pushed_ = 0;         // source rows, counted from the span's first
  int popped_ = 0;
  std::vector<const std::int16_t*> taps_;
  hwy::AlignedFreeUniquePtr<std::int16_t[]> ring_;
  std::size_t ring_size_ = 0;
  hwy::AlignedFreeUniquePtr<std::uint8_t[]> out_;
  std::size_t out_size_ = 0;
};

}  // namespace penstock::image
