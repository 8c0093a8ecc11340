// All image ops of the command line and of TOML: their parameters, and the functions that add them
// to a chain.
#include "pipelines/image_chain.h"

#include <string>

#include "pipelines/kinds.h"
#include "pipelines/parameters.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

constexpr double kMostSide = 65'535;

Parameter extent(std::string help, bool required = true) {
  return {"size", ValueType::extent, std::move(help), required, 1, kMostSide};
}

Parameter share(std::string name, std::string help, double most = 1) {
  return {std::move(name), ValueType::number, std::move(help), false, 0, most};
}

Extent square(Extent extent) {
  if (extent.width == 0) extent.width = extent.height;
  return extent;
}

ImageOps decoder(const Settings& stage, const Spec& input) {
  DecodeOptions options;
  options.orient = stage.get("orient", false);
  options.strict = !stage.get("lenient", false);
  options.strict_images = stage.get("strict_images", false);
  if (options.strict_images && !options.strict)
    throw UsageError("can't be combined with lenient", "strict_images");
  options.channels = static_cast<int>(stage.get("channels", std::int64_t{3}));
  if (options.channels == 2) throw UsageError("channels must be 1 or 3", "decode");
  return decode_image(stage.get("component", image_component(input)), options);
}

RandomResizedCropOptions crop_options(const Settings& stage) {
  RandomResizedCropOptions options;
  options.min_scale = stage.get("min_scale", options.min_scale);
  options.max_scale = stage.get("max_scale", options.max_scale);
  options.min_ratio = stage.get("min_ratio", options.min_ratio);
  options.max_ratio = stage.get("max_ratio", options.max_ratio);
  return options;
}

ColorJitterOptions jitter_options(const Settings& stage) {
  ColorJitterOptions options;
  options.brightness = stage.get("brightness", 0.0);
  options.contrast = stage.get("contrast", 0.0);
  options.saturation = stage.get("saturation", 0.0);
  options.hue = stage.get("hue", 0.0);
  if (options.brightness == 0 && options.contrast == 0 && options.saturation == 0 &&
      options.hue == 0)
    throw UsageError("needs a half width above 0, as in 0.4,0.4,0.4,0.1", "color_jitter");
  return options;
}

NormalizeOptions normalize_options(const Settings& stage) {
  NormalizeOptions options;
  options.dtype = dtype_from_name(stage.get("dtype", std::string("f32")));
  if (stage.get("layout", std::string("chw")) == "hwc") options.layout = Layout::hwc;
  return options;
}

/// Returns the requested size. A single number gives a square.
Extent box(const Settings& stage) {
  return square(stage.get("size", Extent()));
}

void decode(ImageChain& chain, const Settings& stage, const Spec& input) {
  if (chain.begun)
    throw UsageError("the image is already decoded: put one decode before all other image stages",
                     "decode");
  chain.begun = decoder(stage, input);
  chain.on_device = stage.get("on_device", false);
}

void random_resized_crop(ImageChain& chain, const Settings& stage, const Spec& input) {
  ImageOps& ops = chain.ops(input);
  ops = ops.random_resized_crop(box(stage).height, box(stage).width, crop_options(stage));
}

void resize(ImageChain& chain, const Settings& stage, const Spec& input) {
  ImageOps& ops = chain.ops(input);
  const Extent size = stage.get("size", Extent());
  ops = size.width == 0 ? ops.resize_short(size.height) : ops.resize(size.height, size.width);
  chain.resized = box(stage);
}

void center_crop(ImageChain& chain, const Settings& stage, const Spec& input) {
  ImageOps& ops = chain.ops(input);
  if (!stage.has("size") && !chain.resized)
    throw UsageError("center_crop needs a size, or a resize before it");
  const Extent crop = stage.has("size") ? box(stage) : *chain.resized;
  ops = ops.center_crop(crop.height, crop.width);
}

void random_pad_crop(ImageChain& chain, const Settings& stage, const Spec& input) {
  ImageOps& ops = chain.ops(input);
  ops = ops.random_pad_crop(box(stage).height, box(stage).width,
                            static_cast<int>(integer(stage, "padding", 0)));
}

void flip(ImageChain& chain, const Settings& stage, const Spec& input) {
  ImageOps& ops = chain.ops(input);
  ops = ops.random_flip(stage.get("probability", 0.5));
}

void color_jitter(ImageChain& chain, const Settings& stage, const Spec& input) {
  ImageOps& ops = chain.ops(input);
  ops = ops.color_jitter(jitter_options(stage));
}

void normalize(ImageChain& chain, const Settings& stage, const Spec& input) {
  ImageOps& ops = chain.ops(input);
  ops = ops.normalize(normalize_options(stage));
}

}  // namespace

std::vector<Kind> image_kinds() {
  return {
      {"decode",
       "decode the JPEG or PNG in the component image to RGB, u8, HWC",
       {flag("orient", "apply the EXIF orientation"),
        flag("strict_images", "reject images with decoder warnings, even if no pixel changes"),
        flag("lenient", "accept images with decoder warnings, even if pixels change"),
        flag("on_device", "decode as much as possible on the device"),
        {"channels", ValueType::integer, "3: RGB, 1: gray", false, 1, 3},
        {"component", ValueType::text, "default image"}},
       decode,
       {.role = StageRole::decode}},
      {"random_resized_crop",
       "crop a random share of area and aspect, then resize to SIZE",
       {extent("N or HxW"), share("min_scale", "of the area (default 0.08)"),
        share("max_scale", "of the area (default 1)"),
        share("min_ratio", "width / height (default 3/4)", 100),
        share("max_ratio", "width / height (default 4/3)", 100)},
       random_resized_crop},
      {"resize", "resize to HxW, or the short side to N", {extent("N or HxW")}, resize},
      {"center_crop",
       "crop the centre; without SIZE, to the size of the resize before it",
       {extent("N or HxW", false)},
       center_crop},
      {"random_pad_crop",
       "pad with zeros, then crop at random",
       {extent("N or HxW"),
        {"padding", ValueType::integer, "pixels on each side", true, 0, kMostSide}},
       random_pad_crop},
      {"flip", "mirror left and right, at random", {share("probability", "default 0.5")}, flip},
      {"color_jitter",
       "change brightness, contrast, saturation and hue at random, by these half widths: "
       "0.4,0.4,0.4,0.1",
       {share("brightness", "half width (default 0, like the others)", 100),
        share("contrast", "half width", 100), share("saturation", "half width", 100),
        share("hue", "half width", 0.5)},
       color_jitter},
      {"normalize",
       "subtract ImageNet's mean and divide by its deviation; gives f32 CHW",
       {text("dtype", "default f32", {"f32", "f16", "bf16"}),
        text("layout", "default chw", {"chw", "hwc"})},
       normalize},
  };
}

}  // namespace penstock::tool
