// The resize: rows of pixels in, rows of a smaller or larger image out, while they are hot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hwy/aligned_allocator.h>

#include "pipeline/work/image/codec.h"
#include "pipeline/work/image/resize_kernels.h"

namespace penstock::image {

/// A row of planes, one for each channel.
struct PlanarRow {
  const std::uint8_t* values = nullptr;
  std::size_t plane_stride = 0;

  const std::uint8_t* plane(int channel) const noexcept {
    return values + static_cast<std::size_t>(channel) * plane_stride;
  }
};

/// Antialiased bilinear resize in two passes, the horizontal one first and rounded to 8 bits
/// between them, as Pillow does it: given the same pixels at most one level off Pillow's. Holds as
/// many rows as the vertical filter has taps, so that a source row is still in the first cache when
/// it is used last. Not synchronised; keeps its memory from one image to the next.
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

  /// Takes the next source row of the span: interleaved, from the columns' span on, kRowPadding
  /// readable bytes behind it. REQUIRES: `pop` had nothing more to give.
  void push(const std::uint8_t* row);
  /// The next row that is complete, valid until the next call; no values if there is none.
  PlanarRow pop();

  /// That it keeps, about.
  std::size_t bytes() const noexcept;
  /// That it takes at most to make `window` of `target` of a crop that is shrunk by `denominator`.
  static std::uint64_t bytes_for(const Rect& crop, Size target, const Rect& window,
                                 int denominator) noexcept;

 private:
  std::int16_t* slot(int source_row) noexcept;

  Filter rows_;
  Filter columns_;
  HorizontalPass horizontal_;
  VerticalPass vertical_ = nullptr;
  std::size_t plane_ = 0;
  std::size_t width_ = 0;  // values of an intermediate row
  int pushed_ = 0;         // source rows, counted from the span's first
  int popped_ = 0;
  std::vector<const std::int16_t*> taps_;
  hwy::AlignedFreeUniquePtr<std::int16_t[]> ring_;
  std::size_t ring_size_ = 0;
  hwy::AlignedFreeUniquePtr<std::uint8_t[]> out_;
  std::size_t out_size_ = 0;
};

}  // namespace penstock::image
