// A chain of image ops as data, and its effect on one image.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <penstock/image.h>
#include <penstock/rng.h>

#include "pipeline/image/augment.h"
#include "pipeline/image/finish.h"
#include "pipeline/image/geometry.h"

namespace penstock {

struct RandomResizedCropStep {
  image::Size size;
  RandomResizedCropOptions options;
};
struct ResizeStep {
  image::Size size;
};
struct ResizeShortStep {
  int side = 0;
};
struct CenterCropStep {
  image::Size size;
};
struct CropStep {
  image::Rect part;
};
struct RandomPadCropStep {
  image::Size size;
  int padding = 0;
};
struct RandomFlipStep {
  double probability = 0;
};
struct ColorJitterStep {
  ColorJitterOptions options;
};
struct NormalizeStep {
  NormalizeOptions options;
};
struct CastStep {
  DType dtype = DType::u8;
  Layout layout = Layout::hwc;
};

struct ImageOps::Step {
  // The place of a step keys its random numbers, so a new one goes to the end.
  using Any = std::variant<   //
      RandomResizedCropStep,  //
      ResizeStep,             //
      ResizeShortStep,        //
      CenterCropStep,         //
      CropStep,               //
      RandomPadCropStep,      //
      RandomFlipStep,         //
      ColorJitterStep,        //
      NormalizeStep,          //
      CastStep>;
  Any any;
};

struct ImageOps::Chain {
  std::string component;
  std::optional<DecodeOptions> decode;  ///< absent: the component holds pixels
  std::vector<Step> steps;
  bool on_device = false;  ///< the host leaves as much as it can to a Reconstructor

  /// True once a step makes values other than u8. Only crops and flips may follow it.
  bool finished() const noexcept;
};

namespace image {

/// One pass of an image through memory: geometry, then adjustments of color.
struct Pass {
  Geometry geometry;
  Adjustments adjustments;
};

/// The random numbers of each step. Their key is the step's kind and its number among the steps of
/// that kind. So an added flip does not change the random numbers of the crops.
class StepRandom {
 public:
  StepRandom(Rng rng, std::uint64_t ordinal) noexcept : key_(rng.next_u64()), ordinal_(ordinal) {}
  Rng of(std::size_t kind, std::size_t occurrence) const noexcept {
    return {key_, ordinal_, static_cast<std::uint32_t>(kind << 16 | occurrence)};
  }

 private:
  std::uint64_t key_;
  std::uint64_t ordinal_;
};

/// Computes what the chain does to an image of `size`: at least one pass, in `passes`, whose memory
/// is reused. Throws Error{out_of_range} if a step is impossible for such an image, or would make
/// an image of more than `max_pixels` pixels.
void plan_passes(const ImageOps::Chain& chain, Size size, const StepRandom& random,
                 std::uint64_t max_pixels, std::vector<Pass>& passes);

/// Returns the output's size for an input of `size`, with -1 for a dimension that is unknown or
/// varies. Throws Error{invalid_argument} for a crop that reaches beyond a known size.
Size infer_size(const ImageOps::Chain& chain, Size size);

/// Returns the format that the chain makes of u8 pixels. It has the number of channels that the
/// decoder is asked for, or 3 if there is no decoder.
OutputFormat output_format(const ImageOps::Chain& chain) noexcept;

/// Returns a name such as "image(decode,random_resized_crop 224,flip,normalize)".
std::string name_of(const ImageOps::Chain& chain);
/// Describes every option, for fingerprints.
void describe(const ImageOps::Chain& chain, Description& description);

}  // namespace image

}  // namespace penstock
