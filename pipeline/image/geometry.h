// Crops, one resize, flips and padding as one step, which tells where each output pixel comes from.
#pragma once

#include "pipeline/codec/codec.h"

namespace penstock::image {

/// A chain of geometric steps on an image, reduced to one: `source_crop` is resized to `target`.
/// The part `window` of that is used, mirrored if wanted, and placed at (top, left) of a black
/// `canvas`. A value type.
///
///     Geometry g({100, 200});
///     g.crop({10, 20, 50, 60}); g.resize({25, 30}); g.crop({5, 5, 10, 10});
///     // crop {10,20,50,60}, target 25x30, window {5,5,10,10}, canvas 10x10
class Geometry {
 public:
  Geometry() = default;
  /// Starts with the whole of a source of this size.
  explicit Geometry(Size source);

  /// Returns the size of the result so far.
  Size size() const noexcept { return canvas; }
  /// True if `resize` can still be part of this step.
  bool resizable() const noexcept;
  /// Resizes the result. A resize to the size that it has does nothing. REQUIRES: resizable(), and
  /// a size that is not empty.
  void resize(Size to);
  /// Takes a part of the result. Pixels outside of the result are black.
  void crop(const Rect& part);
  void mirror() noexcept;

  Rect source_crop;
  Size target;
  bool resized = false;
  Rect window;
  bool mirrored = false;
  Size canvas;
  int top = 0;
  int left = 0;
};

}  // namespace penstock::image
