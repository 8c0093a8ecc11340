// Puts finished rows where they belong: into the batch row, with black around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/work/image/finish.h"

namespace penstock::image {

/// Where an image goes.
struct Destination {
  std::byte* out = nullptr;
  OutputFormat format;
  std::size_t plane_bytes = 0;  ///< distance of planes, for CHW
};

/// Writes the rows of one image, top to bottom. Not synchronised; keeps its memory.
class RowWriter {
 public:
  /// `content` is the part of the canvas that will be written; the rest becomes black. `channels`
  /// of the rows to come: gray serves all channels of the format.
  void begin(const Destination& destination, Size canvas, const Rect& content, int channels);

  /// True if rows can be taken as they are, by `write_pixels`.
  bool takes_pixels() const noexcept { return takes_pixels_; }
  /// The next row of the content.
  void write(const PlanarRow& row);
  void write_pixels(const std::uint8_t* pixels);
  /// Blackens what is left.
  void end();

 private:
  std::byte* row_out(int y) const noexcept;
  void write_black(int first, int last);

  Destination destination_;
  Size canvas_;
  Rect content_;
  int channels_ = 3;
  int written_ = 0;
  std::size_t row_bytes_ = 0;
  bool takes_pixels_ = false;
  std::vector<std::uint8_t> black_;   // one plane
  std::vector<std::uint8_t> padded_;  // one row of planes
};

}  // namespace penstock::image
