// LeNet-5 for MNIST, with relu and max pooling as is usual today. Source: LeCun et al., "Gradient-
// based learning applied to document recognition", 1998.
#include <utility>
#include <vector>

#include <penstock/image.h>

#include <penstock/towers/classifier.h>
#include <penstock/towers/layers/conv2d.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/pool.h>
#include <penstock/towers/layers/relu.h>
#include <penstock/towers/model_input.h>

#include "towers/label_check.h"
#include "towers/models/built_in.h"
#include "towers/one_number.h"

namespace penstock::towers {
namespace {

constexpr std::int64_t kDigits = 10;

class LeNet final : public Classifier {
 public:
  explicit LeNet(const Scope& scope) {
    const auto halve = [](const Scope& s) { return pool(s, {}); };
    build(scope,
          {[](const Scope& s) {
             return conv2d(s / "conv1", {.in = 1,
                                         .out = 6,
                                         .kernel = 5,
                                         .padding = {2, 2},
                                         .initializer = Initializer::he(25),
                                         .input_gradient = false});
           },
           relu, halve,
           [](const Scope& s) {
             return conv2d(s / "conv2",
                           {.in = 6, .out = 16, .kernel = 5, .initializer = Initializer::he(150)});
           },
           relu, halve,
           [](const Scope& s) {
             return dense(s / "fc1", {.in = 400, .out = 120, .initializer = Initializer::he(400)});
           },
           relu,
           [](const Scope& s) {
             return dense(s / "fc2", {.in = 120, .out = 84, .initializer = Initializer::he(120)});
           },
           relu,
           [](const Scope& s) {
             return dense(s / "fc3",
                          {.in = 84, .out = kDigits, .initializer = Initializer::glorot(84, 10)});
           }});
  }
};

std::vector<TakenComponent> lenet_takes() {
  return {{"image", {{DType::u8, {28, 28}}, {DType::u8, {28, 28, 1}}}},
          {"label", {{DType::i64, {}}, {DType::u8, {}}}}};
}

Spec lenet_ready() {
  return Spec({{"image", DType::f32, {28, 28, 1}}, {"label", DType::i64, {}}});
}

/// Maps {image: u8 [28,28], label: i64 or u8} to {image: f32 [28,28,1], label: i64}, and passes on
/// the components that every model does.
Dataset lenet_input(const Dataset& stored, bool /*training*/) {
  check_input("lenet", stored.spec(), lenet_takes());
  check_classes("lenet", stored, kDigits);
  const Spec both = lenet_ready();
  std::vector<ComponentSpec> output(both.begin(), both.end());
  for (const ComponentSpec& carried : carried_in("lenet", stored.spec())) output.push_back(carried);
  const Spec spec(std::move(output));
  return stored.map(
      [check = LabelCheck(stored, kDigits)](const Element& in, Element& out, Rng&) {
        const std::span<const std::uint8_t> from = in["image"].values<std::uint8_t>();
        const std::span<float> to = out["image"].mutable_values<float>();
        for (std::size_t i = 0; i < to.size(); ++i)
          to[i] = (static_cast<float>(from[i]) / 255 - 0.1307F) / 0.3081F;
        const std::int64_t label = integer_in(in["label"]);
        check(in, label);
        out["label"].mutable_values<std::int64_t>()[0] = label;
        carry(in, out);
      },
      {.name = "lenet_input", .output = spec});
}

}  // namespace

ModelKind lenet_kind() {
  return {.name = "lenet",
          .help = "LeNet-5 for MNIST's digits, 62 k parameters",
          .make = [](const Scope& scope) -> ModelPtr { return std::make_unique<LeNet>(scope); },
          .input = lenet_input,
          .optimizer = "momentum:0.9",
          .schedule = "one_cycle:0.05",
          .takes = lenet_takes(),
          .ready = lenet_ready(),
          .classes = kDigits};
}

}  // namespace penstock::towers
