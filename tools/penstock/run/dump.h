// Writes images to files, as the trainer sees them.
#pragma once

#include <cstdint>
#include <string>

#include <penstock/element.h>

namespace penstock::tool {

/// Writes the images of batches to `folder` as 000000.png, 000001.png and so on. If there is an i64
/// component "label", "-label-N" follows the number. The image is the component "image", or else
/// the first one that looks like an image. That is u8 or floating, [h,w,c] or [c,h,w] with c 1 or
/// 3, in a batch or alone. Floating values are assumed to be normalised by ImageNet's mean and
/// deviation. Encoded images are written unchanged. Not synchronised.
class Dump {
 public:
  /// Creates the folder. Throws Error{unavailable}.
  Dump(std::string folder, std::uint64_t count);
  /// Writes images until there are `count` of them. Throws Error{unavailable}, or
  /// Error{invalid_argument} if there is no image.
  void add(const Element& element);

 private:
  void write(const Tensor& image, std::int64_t label);

  const std::string folder_;
  const std::uint64_t count_;
  std::uint64_t written_ = 0;
};

}  // namespace penstock::tool
