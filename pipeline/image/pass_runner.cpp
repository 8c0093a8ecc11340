#include "pipeline/image/pass_runner.h"

namespace penstock::image {

int choose_denominator(const Geometry& geometry) noexcept {
  if (!geometry.resized) return 1;
  const Rect& crop = geometry.source_crop;
  int denominator = 1;
  while (denominator < 8 && crop.height / (2 * denominator) >= geometry.target.height &&
         crop.width / (2 * denominator) >= geometry.target.width) {
    denominator *= 2;
  }
  return denominator;
}

Rect PassRunner::begin(const Geometry& geometry, const Shrink& shrink, int channels) {
  geometry_ = geometry;
  channels_ = channels;
  resizes_ = geometry.resized && !geometry.window.empty();
  if (!resizes_) return geometry.window;
  const Rect& crop = geometry.source_crop;
  const Rect& window = geometry.window;
  ShrunkAxis rows = shrunk_axis(crop.top + shrink.rows_before, crop.height, shrink.denominator,
                                geometry.target.height);
  rows.axis.first = window.top;
  rows.axis.count = window.height;
  ShrunkAxis columns = shrunk_axis(crop.left + shrink.columns_before, crop.width,
                                   shrink.denominator, geometry.target.width);
  columns.axis.first = window.left;
  columns.axis.count = window.width;
  columns.axis.mirrored = geometry.mirrored;
  resizer_.begin(rows.axis, columns.axis, channels);
  const Filter& y = resizer_.rows();
  const Filter& x = resizer_.columns();
  return {rows.first + y.span_begin(), columns.first + x.span_begin(),
          y.span_end() - y.span_begin(), x.span_end() - x.span_begin()};
}

void PassRunner::open(const Destination& destination) {
  const Rect& window = geometry_.window;
  writer_.begin(destination, geometry_.canvas,
                {geometry_.top, geometry_.left, window.height, window.width}, channels_);
}

void PassRunner::push(const std::uint8_t* row) {
  if (resizes_) {
    resizer_.push(row);
    for (PlanarRow out = resizer_.pop(); out.values != nullptr; out = resizer_.pop()) {
      writer_.write(out);
    }
  } else {
    writer_.write_pixels(row, geometry_.mirrored);
  }
}

}  // namespace penstock::image
