// EXIF orientations: how stored pixels must be turned for display.
#pragma once

#include "pipeline/codec/codec.h"

namespace penstock::image {

/// A way to turn an image: first transposed, then mirrored. Source: CIPA DC-008 (Exif 2.32), 4.6.4.
struct Turn {
  bool transposed = false;
  bool mirrored_rows = false;     ///< the turned image's rows in reverse order
  bool mirrored_columns = false;  ///< …and its columns

  explicit Turn(int orientation) noexcept
      : transposed(orientation >= 5),
        mirrored_rows(orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8),
        mirrored_columns(orientation == 2 || orientation == 3 || orientation == 6 ||
                         orientation == 7) {}

  /// Returns the size of the turned image. The function is its own inverse.
  Size apply(Size size) const noexcept { return transposed ? Size{size.width, size.height} : size; }
  /// Returns the part of the stored image that is displayed as `part`. `turned` is the size of the
  /// turned image.
  Rect stored(const Rect& part, Size turned) const noexcept {
    Rect result = part;
    if (mirrored_rows) result.top = turned.height - part.top - part.height;
    if (mirrored_columns) result.left = turned.width - part.left - part.width;
    if (transposed) result = {result.left, result.top, result.width, result.height};
    return result;
  }
};

/// Turns a plane of `size` pixels. `out` has room for as many pixels.
void turn_plane(const std::uint8_t* in, Size size, const Turn& turn, std::uint8_t* out) noexcept;

}  // namespace penstock::image
