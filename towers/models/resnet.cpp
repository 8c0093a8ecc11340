// ResNet-18 and ResNet-50 for ImageNet. Source: He et al., "Deep residual learning for image
// recognition", 2016; the stride is in the 3x3 convolution, as is usual today.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/image.h>
#include <penstock/towers/classifier.h>
#include <penstock/towers/layers/batch_norm.h>
#include <penstock/towers/layers/conv2d.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/pool.h>
#include <penstock/towers/layers/residual.h>
#include <penstock/towers/model_input.h>

#include "towers/models/built_in.h"

namespace penstock::towers {
namespace {

constexpr std::int64_t kClasses = 1000;

struct Convolution {
  std::int64_t in = 0, out = 0, kernel = 1, stride = 1;
  bool first = false;
  bool relu = true;
};

/// A convolution without bias, its batch normalisation, and a relu unless a residual block has it.
void add_normalised(Sequential& layers, const Scope& scope, const Convolution& c) {
  const std::int64_t around = c.kernel / 2;
  layers
      .add(conv2d(scope, {.in = c.in,
                          .out = c.out,
                          .kernel = c.kernel,
                          .stride = c.stride,
                          .padding = {around, around},
                          .bias = false,
                          .initializer = Initializer::he(c.out * c.kernel * c.kernel),
                          .input_gradient = !c.first}))
      .add(batch_norm(scope, {.channels = c.out, .relu = c.relu}));
}

LayerPtr shortcut(const Scope& scope, std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (in == out && stride == 1) return nullptr;
  auto layers = std::make_unique<Sequential>();
  add_normalised(*layers, scope / "shortcut",
                 {.in = in, .out = out, .stride = stride, .relu = false});
  return layers;
}

/// Two 3x3 convolutions.
LayerPtr basic_block(const Scope& scope, std::int64_t in, std::int64_t width, std::int64_t stride) {
  auto body = std::make_unique<Sequential>();
  add_normalised(*body, scope / "conv1", {in, width, 3, stride});
  add_normalised(*body, scope / "conv2", {.in = width, .out = width, .kernel = 3, .relu = false});
  return residual(scope, std::move(body), shortcut(scope, in, width, stride));
}

/// 1x1 down, 3x3, 1x1 up to four times the width.
LayerPtr bottleneck(const Scope& scope, std::int64_t in, std::int64_t width, std::int64_t stride) {
  auto body = std::make_unique<Sequential>();
  add_normalised(*body, scope / "conv1", {in, width, 1, 1});
  add_normalised(*body, scope / "conv2", {width, width, 3, stride});
  add_normalised(*body, scope / "conv3", {.in = width, .out = 4 * width, .relu = false});
  return residual(scope, std::move(body), shortcut(scope, in, 4 * width, stride));
}

struct Plan {
  std::array<int, 4> blocks;
  bool deep;
};

class ResNet final : public Classifier {
 public:
  ResNet(const Scope& scope, const Plan& plan) {
    std::vector<LayerMaker> makers{[](const Scope& s) {
                                     auto stem = std::make_unique<Sequential>();
                                     add_normalised(*stem, s / "stem", {3, 64, 7, 2, true});
                                     return stem;
                                   },
                                   [](const Scope& s) {
                                     return pool(s, {Pooling::max, 3, 2, {1, 1}});
                                   }};
    std::int64_t in = 64;
    for (std::size_t stage = 0; stage < plan.blocks.size(); ++stage) {
      const std::int64_t width = std::int64_t{64} << stage;
      for (int block = 0; block < plan.blocks[stage]; ++block) {
        const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        makers.emplace_back([=](const Scope& s) {
          const Scope place =
              s / ("stage" + std::to_string(stage + 1)) / ("block" + std::to_string(block + 1));
          return plan.deep ? bottleneck(place, in, width, stride)
                           : basic_block(place, in, width, stride);
        });
        in = plan.deep ? 4 * width : width;
      }
    }
    makers.emplace_back(global_average_pool);
    makers.emplace_back([in](const Scope& s) {
      return dense(s / "fc",
                   {.in = in, .out = kClasses, .initializer = Initializer::normal(0.01F)});
    });
    build(scope, makers);
  }
};

std::vector<TakenComponent> resnet_takes() {
  return {{"image", {{DType::bytes, {}}}}, {"label", {{DType::i64, {}}}}};
}

ImageOps resnet_images(bool training) {
  const NormalizeOptions normal{.layout = Layout::hwc};
  if (training)
    return decode_image("image").random_resized_crop(224).random_flip().normalize(normal);
  return decode_image("image").resize_short(256).center_crop(224, 224).normalize(normal);
}

Dataset resnet_input(const std::string& model, const Dataset& stored, bool training) {
  check_input(model, stored.spec(), resnet_takes());
  check_classes(model, stored, kClasses);
  return image_and_label(stored, kClasses).map(resnet_images(training));
}

ModelKind kind(const std::string& name, const std::string& help, const Plan& plan) {
  return {.name = name,
          .help = help,
          .make = [plan](const Scope& scope) -> ModelPtr {
            return std::make_unique<ResNet>(scope, plan);
          },
          .input = [name](const Dataset& stored,
                          bool training) { return resnet_input(name, stored, training); },
          .images = resnet_images,
          .optimizer = "momentum:0.9",
          .schedule = "cosine:0.1",
          .takes = resnet_takes(),
          .ready = Spec({{"image", DType::f32, {224, 224, 3}}, {"label", DType::i64, {}}}),
          .classes = kClasses};
}

}  // namespace

ModelKind resnet18_kind() {
  return kind("resnet18", "ResNet-18 for ImageNet, 11.7 M parameters", {{2, 2, 2, 2}, false});
}
ModelKind resnet50_kind() {
  return kind("resnet50", "ResNet-50 for ImageNet, 25.6 M parameters", {{3, 4, 6, 3}, true});
}

}  // namespace penstock::towers
