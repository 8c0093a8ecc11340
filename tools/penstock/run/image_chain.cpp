#include "tools/penstock/run/image_chain.h"

#include <map>
#include <string>
#include <utility>

#include "tools/penstock/support/usage_error.h"

namespace penstock::tool {
namespace {

std::string image_component(const Spec& spec) {
  for (const char* name : {"image", "jpg", "jpeg", "png"})
    if (spec.find(name) >= 0) return name;
  return "image";
}

bool encoded(const Spec& spec, const std::string& component) {
  const int at = spec.find(component);
  return at < 0 || spec[static_cast<std::size_t>(at)].dtype == DType::bytes;
}

Extent square(Extent extent) {
  if (extent.width == 0) extent.width = extent.height;
  return extent;
}

ImageOps decode(const Settings& stage, const Spec& input) {
  DecodeOptions options;
  options.orient = stage.get("orient", false);
  options.strict = !stage.get("lenient", false);
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
    throw UsageError("changes nothing without a half width above 0, as in 0.4,0.4,0.4,0.1",
                     "color_jitter");
  return options;
}

NormalizeOptions normalize_options(const Settings& stage) {
  NormalizeOptions options;
  options.dtype = dtype_from_name(stage.get("dtype", std::string("f32")));
  if (stage.get("layout", std::string("chw")) == "hwc") options.layout = Layout::hwc;
  return options;
}

}  // namespace

void ImageChain::add(const Settings& stage, const Spec& input) {
  static const std::map<std::string, Step> kSteps{
      {"random_resized_crop", &ImageChain::random_resized_crop},
      {"resize", &ImageChain::resize},
      {"center_crop", &ImageChain::center_crop},
      {"random_pad_crop", &ImageChain::random_pad_crop},
      {"flip", &ImageChain::flip},
      {"color_jitter", &ImageChain::color_jitter},
      {"normalize", &ImageChain::normalize}};
  if (stage.kind().role == StageRole::decode) {
    if (ops_) throw UsageError("the image is decoded already", "decode");
    ops_ = decode(stage, input);
    on_device_ = stage.get("on_device", false);
    return;
  }
  if (!ops_) {
    const std::string component = image_component(input);
    ops_ = encoded(input, component) ? decode_image(component) : image_ops(component);
  }
  (this->*kSteps.at(stage.kind().name))(stage);
}

void ImageChain::random_resized_crop(const Settings& stage) {
  const Extent box = square(stage.get("size", Extent()));
  ops_ = ops_->random_resized_crop(box.height, box.width, crop_options(stage));
}

void ImageChain::resize(const Settings& stage) {
  const Extent size = stage.get("size", Extent());
  ops_ = size.width == 0 ? ops_->resize_short(size.height) : ops_->resize(size.height, size.width);
  resized_ = square(size);
}

void ImageChain::center_crop(const Settings& stage) {
  if (!stage.has("size") && !resized_)
    throw UsageError("center_crop needs a size, or a resize before it");
  const Extent box = stage.has("size") ? square(stage.get("size", Extent())) : *resized_;
  ops_ = ops_->center_crop(box.height, box.width);
}

void ImageChain::random_pad_crop(const Settings& stage) {
  const Extent box = square(stage.get("size", Extent()));
  ops_ = ops_->random_pad_crop(box.height, box.width,
                               static_cast<int>(stage.get("padding", std::int64_t{0})));
}

void ImageChain::flip(const Settings& stage) {
  ops_ = ops_->random_flip(stage.get("probability", 0.5));
}

void ImageChain::color_jitter(const Settings& stage) {
  ops_ = ops_->color_jitter(jitter_options(stage));
}

void ImageChain::normalize(const Settings& stage) {
  ops_ = ops_->normalize(normalize_options(stage));
}

std::optional<ImageOps> ImageChain::take() {
  resized_.reset();
  std::optional<ImageOps> ops = std::exchange(ops_, std::nullopt);
  if (ops && std::exchange(on_device_, false)) return ops->on_device();
  return ops;
}

}  // namespace penstock::tool
