// The public functions of image ops, which check the options and store them.

#include <atomic>
#include <cmath>

#include "pipeline/image/chain.h"
#include "pipeline/image/fused.h"
#include "pipeline/image/on_device.h"

namespace penstock {

namespace {

constexpr int kMaxSide = 65'535;
constexpr std::size_t kMostSteps = 256;

[[noreturn]] void refuse(const std::string& op, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, op + ": " + why);
}

std::atomic<bool>& strict_images() noexcept {
  static std::atomic<bool> strict{false};
  return strict;
}

image::Size checked(const std::string& op, int height, int width) {
  if (height < 1 || width < 1 || height > kMaxSide || width > kMaxSide) {
    refuse(op, "a size of " + std::to_string(height) + " x " + std::to_string(width) +
                   "; sides go from 1 to " + std::to_string(kMaxSide));
  }
  return {height, width};
}

void check_dtype(const std::string& op, DType dtype, bool with_u8) {
  if (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) return;
  if (with_u8 && dtype == DType::u8) return;
  refuse(op, "dtype " + std::string(name_of(dtype)) + "; it can be " + (with_u8 ? "u8, " : "") +
                 "f32, f16 or bf16");
}

bool may_follow_finish(const ImageOps::Step& step) {
  return std::holds_alternative<CropStep>(step.any) ||
         std::holds_alternative<RandomFlipStep>(step.any);
}

}  // namespace

ImageOps ImageOps::then(Step step) const {
  if (chain().finished() && !may_follow_finish(step)) {
    refuse(image::name_of(chain()), "only crop and random_flip can follow normalize or cast");
  }
  if (chain().steps.size() >= kMostSteps)
    refuse(image::name_of(chain()), "more than " + std::to_string(kMostSteps) + " steps");
  auto longer = std::make_shared<Chain>(chain());
  longer->steps.push_back(std::move(step));
  return ImageOps(std::move(longer));
}

ImageOps ImageOps::random_resized_crop(int size, RandomResizedCropOptions options) const {
  return random_resized_crop(size, size, options);
}

ImageOps ImageOps::random_resized_crop(int height, int width,
                                       RandomResizedCropOptions options) const {
  const std::string op = "random_resized_crop";
  const image::Size size = checked(op, height, width);
  if (!(options.min_scale > 0 && options.min_scale <= options.max_scale &&
        std::isfinite(options.max_scale))) {
    refuse(op, "scales must be positive, the least first");
  }
  if (!(options.min_ratio > 0 && options.min_ratio <= options.max_ratio &&
        std::isfinite(options.max_ratio))) {
    refuse(op, "ratios must be positive, the least first");
  }
  return then({RandomResizedCropStep{size, options}});
}

ImageOps ImageOps::resize(int size) const {
  return resize(size, size);
}

ImageOps ImageOps::resize(int height, int width) const {
  return then({ResizeStep{checked("resize", height, width)}});
}

ImageOps ImageOps::resize_short(int size) const {
  return then({ResizeShortStep{checked("resize_short", size, size).height}});
}

ImageOps ImageOps::center_crop(int size) const {
  return center_crop(size, size);
}

ImageOps ImageOps::center_crop(int height, int width) const {
  return then({CenterCropStep{checked("center_crop", height, width)}});
}

ImageOps ImageOps::crop(int top, int left, int height, int width) const {
  const image::Size size = checked("crop", height, width);
  if (top < 0 || left < 0 || top > kMaxSide || left > kMaxSide) {
    refuse("crop", "starts at row " + std::to_string(top) + ", column " + std::to_string(left));
  }
  return then({CropStep{{top, left, size.height, size.width}}});
}

ImageOps ImageOps::random_pad_crop(int height, int width, int padding) const {
  const image::Size size = checked("random_pad_crop", height, width);
  if (padding < 0 || padding > kMaxSide) {
    refuse("random_pad_crop", "a padding of " + std::to_string(padding));
  }
  return then({RandomPadCropStep{size, padding}});
}

ImageOps ImageOps::random_flip(double probability) const {
  if (!(probability >= 0 && probability <= 1)) {
    refuse("random_flip", "a probability of " + std::to_string(probability));
  }
  return then({RandomFlipStep{probability}});
}

ImageOps ImageOps::color_jitter(ColorJitterOptions options) const {
  const auto valid = [](double width, double most) { return width >= 0 && width <= most; };
  constexpr double kMost = 1000;
  if (!valid(options.brightness, kMost) || !valid(options.contrast, kMost) ||
      !valid(options.saturation, kMost) || !valid(options.hue, 0.5)) {
    refuse("color_jitter", "half widths go from 0, that of hue to 0.5");
  }
  return then({ColorJitterStep{options}});
}

ImageOps ImageOps::normalize(NormalizeOptions options) const {
  check_dtype("normalize", options.dtype, false);
  for (std::size_t c = 0; c < 3; ++c) {
    if (!std::isfinite(options.mean[c]) || !std::isnormal(options.deviation[c]) ||
        options.deviation[c] <= 0) {
      refuse("normalize", "means must be finite and deviations positive");
    }
  }
  return then({NormalizeStep{options}});
}

ImageOps ImageOps::cast(DType dtype, Layout layout) const {
  check_dtype("cast", dtype, true);
  return then({CastStep{dtype, layout}});
}

ImageOps ImageOps::on_device() const {
  auto chain = std::make_shared<Chain>(this->chain());
  chain->on_device = true;
  static_cast<void>(image::size_on_device(*chain));
  return ImageOps(std::move(chain));
}

const std::string& ImageOps::component() const {
  return chain().component;
}

bool ImageOps::is_on_device() const {
  return chain().on_device;
}

std::string ImageOps::plan_component() const {
  return image::plan_component(chain().component);
}

WorkOpPtr ImageOps::op() const {
  if (chain().on_device) return image::make_device_op(shared_chain());
  return image::make_fused_op(shared_chain());
}

ImageOps decode_image(std::string component, DecodeOptions options) {
  if (options.channels != 1 && options.channels != 3) {
    refuse("decode_image", std::to_string(options.channels) + " channels; it can be 1 or 3");
  }
  if (options.strict_images && !options.strict) {
    refuse("decode_image", "strict_images without strict");
  }
  if (options.strict && strict_images().load(std::memory_order_relaxed))
    options.strict_images = true;
  auto chain = std::make_shared<ImageOps::Chain>();
  chain->component = std::move(component);
  chain->decode = options;
  return ImageOps(std::move(chain));
}

void choose_strict_images(bool strict) noexcept {
  strict_images().store(strict, std::memory_order_relaxed);
}

ImageOps image_ops(std::string component) {
  auto chain = std::make_shared<ImageOps::Chain>();
  chain->component = std::move(component);
  return ImageOps(std::move(chain));
}

}  // namespace penstock
