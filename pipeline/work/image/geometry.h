// Where each pixel of the output comes from: crops, one resize, flips and padding as one step.
#pragma once

#include "pipeline/work/image/codec.h"

namespace penstock::image {

/// A chain of geometric steps on an image, reduced: `crop` of the source is resized to `target`, of
/// which `window` is used, mirrored if asked, and placed at (top, left) of a black `canvas`.
/// A value type.
///
///     Geometry g({100, 200});
///     g.crop({10, 20, 50, 60}); g.resize({25, 30}); g.crop({5, 5, 10, 10});
///     // crop {10,20,50,60}, target 25x30, window {5,5,10,10}, canvas 10x10
class Geometry {
 public:
  Geometry() = default;
  /// The whole of a source of this size.
  explicit Geometry(Size source);

  /// The result's size so far.
  Size size() const noexcept { return canvas; }
  /// True if `resize` can still be part of this step.
  bool resizable() const noexcept;
  /// A resize to the size it has does nothing. REQUIRES: resizable(), a size that is not empty.
  void resize(Size to);
  /// Takes a part of the result; what lies outside of it is black.
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
