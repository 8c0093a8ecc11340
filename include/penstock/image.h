// Image ops: decode, crop, resize, augment, normalise, fused into one pass.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <penstock/limits.h>
#include <penstock/work.h>

namespace penstock {

enum class Layout { hwc, chw };

struct DecodeOptions {
  bool orient = false;  ///< apply the EXIF orientation
  bool strict =
      true;  ///< a decoder's warning is an error; false: what libjpeg makes of it, counted
  int channels =
      3;  ///< 3: RGB (gray replicated, alpha dropped, CMYK as Pillow converts it); 1: gray
  Limits limits{};
};

struct RandomResizedCropOptions {
  double min_scale = 0.08, max_scale = 1.0;             ///< share of the area
  double min_ratio = 3.0 / 4.0, max_ratio = 4.0 / 3.0;  ///< width / height
};

struct ColorJitterOptions {
  double brightness = 0, contrast = 0, saturation = 0,
         hue = 0;  ///< half widths, as in torchvision's ColorJitter
};

struct NormalizeOptions {
  std::array<float, 3> mean{0.485F, 0.456F, 0.406F};  ///< of values scaled to [0, 1]
  std::array<float, 3> deviation{0.229F, 0.224F, 0.225F};
  DType dtype = DType::f32;  ///< f32, f16 or bf16
  Layout layout = Layout::chw;
};

/// A chain of image ops on one component, run as one fused pass that writes into the batch row. A
/// value type: each method returns a longer chain.
///
///     decode_image("image").random_resized_crop(224).random_flip().normalize()
///     // {image: bytes []} -> {image: f32 [3,224,224]}
///
/// Output without `normalize`: u8, HWC, RGB. Methods throw Error{invalid_argument} for sizes that
/// are not positive or an order that makes no sense (a second decode).
class ImageOps {
 public:
  /// Crops a random share of the area and aspect ratio, then resizes to `height` x `width`. Source:
  /// torchvision RandomResizedCrop.
  ImageOps random_resized_crop(int size, RandomResizedCropOptions options = {}) const;
  ImageOps random_resized_crop(int height, int width, RandomResizedCropOptions options) const;
  /// Antialiased bilinear, to exactly this size.
  ImageOps resize(int height, int width) const;
  /// Antialiased bilinear, the short side to `size`, aspect kept (long side truncated, as
  /// torchvision does).
  ImageOps resize_short(int size) const;
  ImageOps center_crop(int height, int width) const;
  ImageOps crop(int top, int left, int height, int width) const;
  /// Pads by `padding` zero pixels on each side, then takes a random `height` x `width` crop.
  ImageOps random_pad_crop(int height, int width, int padding) const;
  ImageOps random_flip(double probability = 0.5) const;
  ImageOps color_jitter(ColorJitterOptions options) const;
  ImageOps normalize(NormalizeOptions options = {}) const;
  /// Values as they are (scaled by nothing), in another dtype or layout.
  ImageOps cast(DType dtype, Layout layout) const;

  /// The same, but that a device carries it out: see Reconstructor in penstock/reconstruct.h.
  /// Throws Error{invalid_argument} unless the chain begins with a decode and ends in one size.
  ImageOps on_device() const;

  /// The chain as a work op.
  WorkOpPtr op() const;

  /// The component that it works on.
  const std::string& component() const noexcept;
  /// True for what `on_device` returned.
  bool is_on_device() const noexcept;
  /// The component that such a chain adds: what a Reconstructor is told of each image.
  std::string plan_component() const;

  struct Step;
  struct Chain;
  /// For the library.
  const Chain& chain() const noexcept { return *chain_; }
  explicit ImageOps(std::shared_ptr<const Chain> chain) : chain_(std::move(chain)) {}

 private:
  ImageOps then(Step step) const;
  std::shared_ptr<const Chain> chain_;
};

/// Decodes the JPEG or PNG in a bytes component, by its content.
ImageOps decode_image(std::string component = "image", DecodeOptions options = {});
/// Starts from a component that holds pixels: u8, HWC, 1 or 3 channels.
ImageOps image_ops(std::string component = "image");

}  // namespace penstock
