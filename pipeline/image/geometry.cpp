#include "pipeline/image/geometry.h"

#include <algorithm>

namespace penstock::image {

Geometry::Geometry(Size source)
    : source_crop{0, 0, source.height, source.width},
      target(source),
      window(source_crop),
      canvas(source) {}

bool Geometry::resizable() const noexcept {
  return !resized && window.height == canvas.height && window.width == canvas.width;
}

void Geometry::resize(Size to) {
  if (to == canvas) return;
  source_crop = {source_crop.top + window.top, source_crop.left + window.left, window.height,
                 window.width};
  resized = true;
  target = to;
  canvas = to;
  window = {0, 0, to.height, to.width};
}

void Geometry::crop(const Rect& part) {
  const int first_row = std::max(top, part.top);
  const int end_row = std::min(top + window.height, part.top + part.height);
  const int first_column = std::max(left, part.left);
  const int end_column = std::min(left + window.width, part.left + part.width);
  const int before = first_column - left;
  const int behind = left + window.width - end_column;
  window.top += first_row - top;
  window.height = std::max(end_row - first_row, 0);
  window.left += mirrored ? behind : before;
  window.width = std::max(end_column - first_column, 0);
  canvas = {part.height, part.width};
  top = first_row - part.top;
  left = first_column - part.left;
  if (window.empty()) {
    window = {0, 0, 0, 0};
    top = left = 0;
  }
}

void Geometry::mirror() noexcept {
  mirrored = !mirrored;
  left = canvas.width - left - window.width;
}

}  // namespace penstock::image
