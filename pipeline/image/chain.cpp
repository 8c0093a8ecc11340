#include "pipeline/image/chain.h"

#include <array>

namespace penstock {

namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

std::string text_of(image::Size size) {
  return std::to_string(size.height) + "x" + std::to_string(size.width);
}

}  // namespace

bool ImageOps::Chain::finished() const noexcept {
  for (const Step& step : steps) {
    if (std::holds_alternative<NormalizeStep>(step.any) ||
        std::holds_alternative<CastStep>(step.any)) {
      return true;
    }
  }
  return false;
}

namespace image {

namespace {

constexpr int kUnknown = -1;

/// Applies one step to the passes so far.
class Planner {
 public:
  Planner(std::uint64_t max_pixels, std::vector<Pass>& passes)
      : max_pixels_(max_pixels), passes_(passes) {}

  void operator()(const RandomResizedCropStep& step, Rng rng) {
    geometry().crop(choose_random_resized_crop(geometry().size(), step.options, rng));
    resize(step.size);
  }
  void operator()(const ResizeStep& step, Rng) { resize(step.size); }
  void operator()(const ResizeShortStep& step, Rng) { resize(short_side_size(size(), step.side)); }
  void operator()(const CenterCropStep& step, Rng) {
    geometry().crop(choose_center_crop(size(), step.size));
  }
  void operator()(const CropStep& step, Rng) {
    const Rect& part = step.part;
    const Size have = size();
    if (part.top + part.height > have.height || part.left + part.width > have.width) {
      throw Error(ErrorCode::out_of_range, "crop " + text_of({part.height, part.width}) +
                                               " at row " + std::to_string(part.top) + ", column " +
                                               std::to_string(part.left) + " of an image of " +
                                               text_of(have));
    }
    geometry().crop(part);
  }
  void operator()(const RandomPadCropStep& step, Rng rng) {
    geometry().crop(choose_random_pad_crop(size(), step.size, step.padding, rng));
  }
  void operator()(const RandomFlipStep& step, Rng rng) {
    // A flip and adjustments of color commute.
    if (rng.coin(step.probability)) passes_.back().geometry.mirror();
  }
  void operator()(const ColorJitterStep& step, Rng rng) {
    if (passes_.back().adjustments.count > 0) next_pass();
    passes_.back().adjustments = choose_adjustments(step.options, rng);
  }
  void operator()(const NormalizeStep&, Rng) {}
  void operator()(const CastStep&, Rng) {}

 private:
  Size size() const { return passes_.back().geometry.size(); }

  /// Returns the geometry of a pass without adjustments. Begins another pass if the last one has
  /// some.
  Geometry& geometry() {
    if (passes_.back().adjustments.count > 0) next_pass();
    return passes_.back().geometry;
  }
  void next_pass() { passes_.push_back({Geometry(size()), {}}); }

  void resize(Size to) {
    if (to.height < 1 || to.width < 1 ||
        static_cast<std::uint64_t>(to.height) * static_cast<std::uint64_t>(to.width) >
            max_pixels_) {
      throw Error(ErrorCode::out_of_range, "a resize of " + text_of(size()) + " to " + text_of(to) +
                                               " pixels (max_pixels " +
                                               std::to_string(max_pixels_) + ")");
    }
    if (!geometry().resizable()) next_pass();
    passes_.back().geometry.resize(to);
  }

  std::uint64_t max_pixels_;
  std::vector<Pass>& passes_;
};

}  // namespace

void plan_passes(const ImageOps::Chain& chain, Size size, const StepRandom& random,
                 std::uint64_t max_pixels, std::vector<Pass>& passes) {
  passes.clear();
  passes.push_back({Geometry(size), {}});
  Planner planner(max_pixels, passes);
  std::array<std::size_t, std::variant_size_v<ImageOps::Step::Any>> seen{};
  for (const ImageOps::Step& step : chain.steps) {
    const std::size_t kind = step.any.index();
    const Rng rng = random.of(kind, seen[kind]++);
    std::visit([&](const auto& concrete) { planner(concrete, rng); }, step.any);
  }
}

Size infer_size(const ImageOps::Chain& chain, Size size) {
  for (const ImageOps::Step& step : chain.steps) {
    std::visit(Overloaded{
                   [&](const RandomResizedCropStep& s) { size = s.size; },
                   [&](const ResizeStep& s) { size = s.size; },
                   [&](const ResizeShortStep& s) {
                     const bool known = size.height != kUnknown && size.width != kUnknown;
                     size = known ? short_side_size(size, s.side) : Size{kUnknown, kUnknown};
                   },
                   [&](const CenterCropStep& s) { size = s.size; },
                   [&](const CropStep& s) {
                     const auto beyond = [](int have, int end) {
                       return have != kUnknown && end > have;
                     };
                     if (beyond(size.height, s.part.top + s.part.height) ||
                         beyond(size.width, s.part.left + s.part.width)) {
                       throw Error(ErrorCode::invalid_argument,
                                   "crop: " + text_of({s.part.height, s.part.width}) + " at row " +
                                       std::to_string(s.part.top) + ", column " +
                                       std::to_string(s.part.left) +
                                       " reaches beyond an image of " + text_of(size));
                     }
                     size = {s.part.height, s.part.width};
                   },
                   [&](const RandomPadCropStep& s) { size = s.size; },
                   [](const auto&) {},
               },
               step.any);
  }
  return size;
}

OutputFormat output_format(const ImageOps::Chain& chain) noexcept {
  OutputFormat format;
  if (chain.decode) format.channels = chain.decode->channels;
  for (const ImageOps::Step& step : chain.steps) {
    if (const auto* cast = std::get_if<CastStep>(&step.any)) {
      format.dtype = cast->dtype;
      format.layout = cast->layout;
    } else if (const auto* normalize = std::get_if<NormalizeStep>(&step.any)) {
      const NormalizeOptions& options = normalize->options;
      format.dtype = options.dtype;
      format.layout = options.layout;
      for (std::size_t c = 0; c < 3; ++c) {
        const double deviation = options.deviation[c];
        format.scale[c] = static_cast<float>(1.0 / (255.0 * deviation));
        format.bias[c] = static_cast<float>(-options.mean[c] / deviation);
      }
    }
  }
  return format;
}

std::string name_of(const ImageOps::Chain& chain) {
  std::string name = chain.decode ? "decode" : "";
  for (const ImageOps::Step& step : chain.steps) {
    if (!name.empty()) name += ',';
    name += std::visit(
        Overloaded{
            [](const RandomResizedCropStep& s) {
              const bool square = s.size.height == s.size.width;
              return "random_resized_crop " +
                     (square ? std::to_string(s.size.width) : text_of(s.size));
            },
            [](const ResizeStep& s) { return "resize " + text_of(s.size); },
            [](const ResizeShortStep& s) { return "resize " + std::to_string(s.side); },
            [](const CenterCropStep& s) { return "center_crop " + text_of(s.size); },
            [](const CropStep& s) {
              return "crop " + text_of({s.part.height, s.part.width});
            },
            [](const RandomPadCropStep& s) { return "random_pad_crop " + text_of(s.size); },
            [](const RandomFlipStep&) { return std::string("flip"); },
            [](const ColorJitterStep&) { return std::string("color_jitter"); },
            [](const NormalizeStep&) { return std::string("normalize"); },
            [](const CastStep& s) { return "cast " + std::string(penstock::name_of(s.dtype)); },
        },
        step.any);
  }
  return (chain.on_device ? "image_on_device(" : "image(") + name + ")";
}

}  // namespace image

}  // namespace penstock
