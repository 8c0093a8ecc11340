// Writing finished rows into the batch row, with black around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/image/finish.h"

namespace penstock::image {

/// The place where an image goes.
struct Destination {
  std::byte* out = nullptr;
  OutputFormat format;
  std::size_t plane_bytes = 0;  ///< distance of planes, for CHW
};

/// A writer of the rows of one image, top to bottom. Not synchronised. Keeps its memory from one
/// image to the next.
class RowWriter {
 public:
  /// Starts an image. `content` is the part of the canvas that will be written; the rest becomes
  /// black. `channels` is the number in the rows to come; gray fills all channels of the format.
  void begin(const Destination& destination, Size canvas, const Rect& content, int channels);

  /// Writes the next row of the content…
  void write(const PlanarRow& row);
  /// …given as interleaved pixels, in reverse order if `mirrored`.
  void write_pixels(const std::uint8_t* pixels, bool mirrored);
  /// Makes the rest of the canvas black.
  void end();

 private:
  std::byte* row_out(int y) const noexcept;
  std::uint8_t* content() noexcept { return planes_.data() + content_.left; }
  void write_planes();
  void write_black(int first, int last);

  Destination destination_;
  Size canvas_;
  Rect content_;
  int channels_ = 3;
  int written_ = 0;
  std::size_t row_bytes_ = 0;
  bool copies_pixels_ = false;  // the output is the same as the rows of pixels
  RowKernels kernels_{};
  std::vector<std::uint8_t> black_;   // one plane
  std::vector<std::uint8_t> planes_;  // one row of the canvas, black around the content
};

}  // namespace penstock::image
