// Images as the trainer sees them, as files.
#pragma once

#include <cstdint>
#include <string>

#include <penstock/element.h>

namespace penstock::tool {

/// Writes the images of batches to `folder` as 000000.png, 000001.png…, with "-label-N" behind the
/// number where there is an i64 component "label". The image is the component "image", else the
/// first that looks like one: u8 or floating, [h,w,c] or [c,h,w] with c 1 or 3, in a batch or
/// alone. Floating values are taken for normalised by ImageNet's mean and deviation. Encoded images
/// are written as they are. Not synchronised.
class Dump {
 public:
  /// Makes the folder. Throws Error{unavailable}.
  Dump(std::string folder, std::uint64_t count);
  /// Writes until `count` images are there. Throws Error{unavailable}, or Error{invalid_argument}
  /// if there is no image.
  void add(const Element& element);

 private:
  void write(const Tensor& image, std::int64_t label);

  const std::string folder_;
  const std::uint64_t count_;
  std::uint64_t written_ = 0;
};

}  // namespace penstock::tool
