// One pass through memory: source rows in, rows of the geometry's canvas out.
#pragma once

#include <cstdint>

#include "pipeline/image/geometry.h"
#include "pipeline/image/resize.h"
#include "pipeline/image/row_writer.h"

namespace penstock::image {

/// How a decoder shrinks the source. Its first pixel may reach beyond the image.
struct Shrink {
  int denominator = 1;
  /// Rows and columns of the unshrunk image, in front of its first ones, that count for the first
  /// shrunk pixel.
  int rows_before = 0;
  int columns_before = 0;
};

/// Returns the largest power of two, up to 8, by which a source may be shrunk so that it stays at
/// least as large as the resize's target.
int choose_denominator(const Geometry& geometry) noexcept;

/// The code that carries out a geometry. Not synchronised. Keeps its memory from one image to the
/// next.
class PassRunner {
 public:
  /// Starts an image. Returns the part of the shrunk source that is needed; it is empty if the
  /// canvas is all black.
  Rect begin(const Geometry& geometry, const Shrink& shrink, int channels);
  /// Opens the destination. Call it after `begin`, before the first `push`.
  void open(const Destination& destination);
  /// Takes the next row of the part: interleaved, followed by kRowPadding readable bytes if
  /// `pads()`.
  void push(const std::uint8_t* row);
  void end() { writer_.end(); }

  bool pads() const noexcept { return resizes_; }
  /// Returns the memory that it keeps, except for a few rows.
  std::size_t bytes() const noexcept { return resizer_.bytes(); }

 private:
  Geometry geometry_;
  int channels_ = 3;
  bool resizes_ = false;
  Resizer resizer_;
  RowWriter writer_;
};

}  // namespace penstock::image
