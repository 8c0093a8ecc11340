// The network of TensorFlow's CIFAR-10 tutorial: two convolutions with local response
// normalisation, two dense layers, crops of 24x24. Source: Krizhevsky's cuda-convnet and the
// tutorial's text.
#include <algorithm>

#include <penstock/error.h>
#include <penstock/image.h>
#include <penstock/towers/classifier.h>
#include <penstock/towers/layers/conv2d.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/lrn.h>
#include <penstock/towers/layers/pool.h>
#include <penstock/towers/layers/relu.h>
#include <penstock/towers/model_input.h>

#include "towers/models/built_in.h"

namespace penstock::towers {
namespace {

constexpr std::int64_t kObjects = 10;
constexpr std::int64_t kCrop = 24;
constexpr std::int64_t kPooled = kCrop / 4;

class Cifar10 final : public Classifier {
 public:
  explicit Cifar10(const Scope& scope) {
    const auto half = [](const Scope& s) {
      return pool(s, {Pooling::max, 3, 2, Padding::same(kCrop, 3, 2)});
    };
    constexpr std::int64_t features = kPooled * kPooled * 64;
    build(scope, {[](const Scope& s) {
                    return conv2d(s / "conv1", {.in = 3,
                                                .out = 64,
                                                .kernel = 5,
                                                .padding = {2, 2},
                                                .initializer = Initializer::truncated_normal(0.05F),
                                                .input_gradient = false});
                  },
                  relu, half, [](const Scope& s) { return lrn(s / "norm1"); },
                  [](const Scope& s) {
                    return conv2d(s / "conv2", {.in = 64,
                                                .out = 64,
                                                .kernel = 5,
                                                .padding = {2, 2},
                                                .initializer = Initializer::truncated_normal(0.05F),
                                                .bias_initializer = Initializer::constant(0.1F)});
                  },
                  relu, [](const Scope& s) { return lrn(s / "norm2"); }, half,
                  [](const Scope& s) { return local(s / "local3", features, 384); }, relu,
                  [](const Scope& s) { return local(s / "local4", 384, 192); }, relu,
                  [](const Scope& s) {
                    return dense(s / "softmax",
                                 {.in = 192,
                                  .out = kObjects,
                                  .initializer = Initializer::truncated_normal(1.0F / 192)});
                  }});
    // Half of the tutorial's factor, because decay is applied once per update, and the tutorial's
    // batches are smaller.
    decay_.add((scope / "local3").reuse().get("weights", {384, features}, {}), 0.002F);
    decay_.add((scope / "local4").reuse().get("weights", {192, 384}, {}), 0.002F);
  }

 private:
  static LayerPtr local(const Scope& scope, std::int64_t in, std::int64_t out) {
    return dense(scope, {.in = in,
                         .out = out,
                         .initializer = Initializer::truncated_normal(0.04F),
                         .bias_initializer = Initializer::constant(0.1F)});
  }
};

std::vector<TakenComponent> cifar10_takes() {
  return {{"image", {{DType::bytes, {}}, {DType::u8, {-1, -1, 3}}}}, {"label", {{DType::i64, {}}}}};
}

ImageOps cifar10_ops(const ImageOps& pixels, bool training) {
  const NormalizeOptions normal{.mean = {0.4914F, 0.4822F, 0.4465F},
                                .deviation = {0.2470F, 0.2435F, 0.2616F},
                                .layout = Layout::hwc};
  if (training) return pixels.random_pad_crop(kCrop, kCrop, 0).random_flip().normalize(normal);
  return pixels.center_crop(kCrop, kCrop).normalize(normal);
}

Dataset cifar10_input(const Dataset& stored, bool training) {
  check_input("cifar10", stored.spec(), cifar10_takes());
  check_classes("cifar10", stored, kObjects);
  const Shape& size = stored.spec()[stored.spec().require("image")].shape;
  for (int axis = 0; axis < std::min(2, size.rank()); ++axis)
    if (size[axis] >= 0 && size[axis] < kCrop)
      throw Error(ErrorCode::invalid_argument,
                  "cifar10 takes crops of 24x24; the data have image: u8 " + size.to_string());
  const bool encoded = stored.spec()[stored.spec().require("image")].dtype == DType::bytes;
  const Dataset labelled = image_and_label(stored, kObjects);
  return labelled.map(cifar10_ops(encoded ? decode_image("image") : image_ops("image"), training));
}

}  // namespace

ModelKind cifar10_kind() {
  return {.name = "cifar10",
          .help = "the CIFAR-10 tutorial's network, 1.07 M parameters",
          .make = [](const Scope& scope) -> ModelPtr { return std::make_unique<Cifar10>(scope); },
          .input = cifar10_input,
          .images = [](bool training) { return cifar10_ops(decode_image("image"), training); },
          .optimizer = "momentum:0.9",
          .schedule = "one_cycle:0.05",
          .takes = cifar10_takes(),
          .ready = Spec({{"image", DType::f32, {kCrop, kCrop, 3}}, {"label", DType::i64, {}}}),
          .classes = kObjects};
}

}  // namespace penstock::towers
