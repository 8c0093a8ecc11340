// Image ops: decode, crop, resize, augment, normalise, fused into one pass.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <penstock/error.h>
#include <penstock/limits.h>
#include <penstock/work.h>

namespace penstock {

/// The order of an image's dimensions.
enum class Layout { hwc, chw };

/// The options of `decode_image`.
struct DecodeOptions {
  /// Applies the EXIF orientation. Of a PNG, that is in eXIf, or in a raw profile of ImageMagick.
  bool orient = false;
  /// True: a decoder's warning is an error, unless it changes no pixel, as of stray bytes in front
  /// of a JPEG's marker, or of damaged metadata. False: the decoder's result is used. Images that
  /// are decoded in spite of a warning are counted (DecoderStats::warned).
  bool strict = true;
  /// True: a warning that changes no pixel is an error, too. Not with `strict` = false.
  bool strict_images = false;
  /// 3: RGB (gray replicated, alpha dropped, CMYK as Pillow converts it); 1: gray. Samples of 16
  /// bits are shifted down to 8.
  int channels = 3;
  /// Bounds for the sizes that files may ask for.
  Limits limits{};
};

/// The options of `random_resized_crop`.
struct RandomResizedCropOptions {
  double min_scale = 0.08, max_scale = 1.0;             ///< share of the area
  double min_ratio = 3.0 / 4.0, max_ratio = 4.0 / 3.0;  ///< width / height
};

/// The half widths of the random factors, as in torchvision's ColorJitter; that of hue is at most
/// 0.5.
struct ColorJitterOptions {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;  ///< half widths; 0: unchanged
};

/// The options of `normalize`: (value / 255 - mean) / deviation.
struct NormalizeOptions {
  std::array<float, 3> mean{0.485F, 0.456F, 0.406F};       ///< of values scaled to [0, 1]
  std::array<float, 3> deviation{0.229F, 0.224F, 0.225F};  ///< of the same values
  DType dtype = DType::f32;                                ///< f32, f16 or bf16
  Layout layout = Layout::chw;                             ///< order of the output's dimensions
};

/// A chain of image ops on one component. It runs as one fused pass that writes into the batch row.
/// A value type: each method returns a longer chain.
///
///     decode_image("image").random_resized_crop(224).random_flip().normalize()
///     // {image: bytes []} -> {image: f32 [3,224,224]}
///
/// Output without `normalize`: u8, HWC, RGB. Methods throw Error{invalid_argument} for sizes that
/// are not positive or do not fit, and for an order that makes no sense (a second decode, or, after
/// `normalize` or `cast`, anything but `crop` and `random_flip`). Sizes that do not fit an image
/// whose size is not known then are the element's error.
///
/// A JPEG is decoded only where the crop needs it, and at the power-of-two scale that the resize
/// allows. Damage in bytes that the crop does not need goes unseen; `penstock verify` decodes all.
/// The random numbers of an op depend on its kind and its place among the ops of that kind: a flip
/// that is added leaves the crops as they were.
class ImageOps {
 public:
  /// Crops a random share of the area and aspect ratio, then resizes to `size` x `size`. Source:
  /// torchvision RandomResizedCrop.
  ImageOps random_resized_crop(int size, RandomResizedCropOptions options = {}) const;
  /// Crops a random share of the area and aspect ratio, then resizes to `height` x `width`.
  ImageOps random_resized_crop(int height, int width, RandomResizedCropOptions options) const;
  /// Resizes to `size` x `size`, antialiased bilinear. To keep the aspect, as torchvision's
  /// Resize(size) and `resize` in a pipeline file do, call `resize_short`.
  ImageOps resize(int size) const;
  /// Resizes to exactly this size, antialiased bilinear.
  ImageOps resize(int height, int width) const;
  /// Resizes the short side to `size` and keeps the aspect, antialiased bilinear. The long side is
  /// truncated, as in torchvision.
  ImageOps resize_short(int size) const;
  /// Crops `size` x `size` pixels at the centre. A smaller image gets a black border.
  ImageOps center_crop(int size) const;
  /// Crops the centre. A smaller image gets a black border.
  ImageOps center_crop(int height, int width) const;
  /// Crops a fixed rectangle. An image that does not hold it is the element's error.
  ImageOps crop(int top, int left, int height, int width) const;
  /// Pads by `padding` zero pixels on each side, then takes a random `height` x `width` crop.
  ImageOps random_pad_crop(int height, int width, int padding) const;
  /// Exchanges left and right with this probability.
  ImageOps random_flip(double probability = 0.5) const;
  /// Changes brightness, contrast, saturation and hue by random factors, in a random order, with
  /// torchvision's formulas.
  ImageOps color_jitter(ColorJitterOptions options) const;
  /// Converts to floats: (value / 255 - mean) / deviation, by default with ImageNet's numbers.
  ImageOps normalize(NormalizeOptions options = {}) const;
  /// Converts to u8, f32, f16 or bf16, or to another layout, and leaves the values as they are (not
  /// scaled).
  ImageOps cast(DType dtype, Layout layout) const;

  /// Returns the same chain for a device to carry out, over records of coefficients and baseline
  /// JPEGs: see Reconstructor in penstock/reconstruct.h and docs/staging.md.
  /// Throws Error{invalid_argument} unless the chain begins with a decode and ends in one size.
  ImageOps on_device() const;

  /// Returns the chain as a work op.
  WorkOpPtr op() const;

  /// Returns the component that the chain works on.
  const std::string& component() const;
  /// Returns true for a chain that `on_device` returned.
  bool is_on_device() const;
  /// Returns the name of the component that such a chain adds: instructions for a Reconstructor,
  /// for each image.
  std::string plan_component() const;

  struct Step;
  struct Chain;
  /// For the library.
  const Chain& chain() const { return *shared_chain(); }
  /// For the library.
  explicit ImageOps(std::shared_ptr<const Chain> chain) : chain_(std::move(chain)) {}

 private:
  ImageOps then(Step step) const;
  const std::shared_ptr<const Chain>& shared_chain() const {
    return not_moved(chain_, "chain of image ops");
  }
  std::shared_ptr<const Chain> chain_;
};

/// Returns a chain that decodes the JPEG or PNG in a bytes component. The content tells the format.
/// Throws Error{invalid_argument} for options that contradict each other.
ImageOps decode_image(std::string component = "image", DecodeOptions options = {});
/// Sets `strict_images` in all strict chains that this process begins from now on, for programs
/// that do not begin them themselves, such as those of a model. Thread-safe.
void choose_strict_images(bool strict) noexcept;
/// Returns a chain that starts from a component of pixels: u8, HWC, 1 or 3 channels.
ImageOps image_ops(std::string component = "image");

}  // namespace penstock
