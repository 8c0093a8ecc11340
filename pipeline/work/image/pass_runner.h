// One trip through memory: source rows in, rows of the geometry's canvas out.
#pragma once

#include <cstdint>

#include "pipeline/work/image/geometry.h"
#include "pipeline/work/image/resize.h"
#include "pipeline/work/image/row_writer.h"

namespace penstock::image {

/// The source as a decoder delivers it: shrunk, its first pixel perhaps reaching beyond the image.
struct Shrink {
  int denominator = 1;
  int rows_before = 0;  ///< of the unshrunk image, that lie in front of its first row
  int columns_before = 0;
};

/// The power of two up to 8 by which a source may be shrunk so that it stays at least as large as
/// the resize's target.
int choose_denominator(const Geometry& geometry) noexcept;

/// Carries out a geometry. Not synchronised; keeps its memory.
class PassRunner {
 public:
  /// Returns the part of the shrunk source that is needed; empty if the canvas is all black.
  Rect begin(const Geometry& geometry, const Shrink& shrink, int channels);
  /// Opens the destination. Called after `begin`, before the first `push`.
  void open(const Destination& destination);
  /// The next row of the part: interleaved, kRowPadding readable bytes behind it if `pads()`.
  void push(const std::uint8_t* row);
  void end() { writer_.end(); }

  bool pads() const noexcept { return resizes_; }
  /// That it keeps, but for a few rows.
  std::size_t bytes() const noexcept { return resizer_.bytes(); }

 private:
  Geometry geometry_;
  int channels_ = 3;
  bool resizes_ = false;
  Resizer resizer_;
  RowWriter writer_;
};

}  // namespace penstock::image
