// The fingerprint of a chain: every option that decides a byte of the output.

#include "pipeline/image/chain.h"

namespace penstock::image {

namespace {

class Writer {
 public:
  Writer(Description& description, std::size_t step)
      : description_(description), prefix_(std::to_string(step) + ".") {}

  void operator()(const RandomResizedCropStep& step) {
    add("op", "random_resized_crop");
    add(step.size);
    add("min_scale", step.options.min_scale);
    add("max_scale", step.options.max_scale);
    add("min_ratio", step.options.min_ratio);
    add("max_ratio", step.options.max_ratio);
  }
  void operator()(const ResizeStep& step) {
    add("op", "resize");
    add(step.size);
  }
  void operator()(const ResizeShortStep& step) {
    add("op", "resize_short");
    add("side", step.side);
  }
  void operator()(const CenterCropStep& step) {
    add("op", "center_crop");
    add(step.size);
  }
  void operator()(const CropStep& step) {
    add("op", "crop");
    add("top", step.part.top);
    add("left", step.part.left);
    add(Size{step.part.height, step.part.width});
  }
  void operator()(const RandomPadCropStep& step) {
    add("op", "random_pad_crop");
    add(step.size);
    add("padding", step.padding);
  }
  void operator()(const RandomFlipStep& step) {
    add("op", "random_flip");
    add("probability", step.probability);
  }
  void operator()(const ColorJitterStep& step) {
    add("op", "color_jitter");
    add("brightness", step.options.brightness);
    add("contrast", step.options.contrast);
    add("saturation", step.options.saturation);
    add("hue", step.options.hue);
  }
  void operator()(const NormalizeStep& step) {
    add("op", "normalize");
    for (std::size_t c = 0; c < 3; ++c) {
      add("mean" + std::to_string(c), static_cast<double>(step.options.mean[c]));
      add("deviation" + std::to_string(c), static_cast<double>(step.options.deviation[c]));
    }
    add(step.options.dtype, step.options.layout);
  }
  void operator()(const CastStep& step) {
    add("op", "cast");
    add(step.dtype, step.layout);
  }

 private:
  template <typename T>
  void add(const std::string& key, const T& value) {
    description_.add(prefix_ + key, value);
  }
  void add(Size size) {
    add("height", size.height);
    add("width", size.width);
  }
  void add(DType dtype, Layout layout) {
    add("dtype", penstock::name_of(dtype));
    add("layout", layout == Layout::hwc ? "hwc" : "chw");
  }

  Description& description_;
  std::string prefix_;
};

}  // namespace

void describe(const ImageOps::Chain& chain, Description& description) {
  description.add("component", chain.component);
  description.add("decode", chain.decode.has_value());
  if (chain.decode) {
    const DecodeOptions& decode = *chain.decode;
    description.add("orient", decode.orient);
    description.add("strict", decode.strict);
    if (decode.strict_images) description.add("strict_images", true);
    description.add("channels", decode.channels);
    description.add("max_pixels", decode.limits.max_pixels);
    description.add("max_scans", decode.limits.max_scans);
    description.add("max_codec_bytes", decode.limits.max_codec_bytes);
  }
  if (chain.on_device) description.add("on_device", true);
  std::size_t index = 0;
  for (const ImageOps::Step& step : chain.steps) {
    std::visit(Writer(description, index++), step.any);
  }
}

}  // namespace penstock::image
