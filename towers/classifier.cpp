#include "towers/classifier.h"

#include <string>

#include <penstock/error.h>

#include "towers/gpu/gpu.h"
#include "towers/layers/relay.h"

namespace penstock::towers {

Loss Classifier::forward(const Batch& batch, const Pass& pass) {
  image_ = batch.f32("image");
  const Array* image = &image_;
  if (pass.gpu != nullptr && pass.gpu->dtype() == DType::bf16) {
    if (rounded_.dtype() != DType::bf16) rounded_ = pass.gpu->array();
    rounded_.resize(image_.shape());
    pass.gpu->run(ToBf16Plan{image_.data(), rounded_.as<Bf16>()},
                  static_cast<std::int64_t>(image_.size()));
    image = &rounded_;
  }
  const Array& logits = layers_.forward(*image, pass);
  const SoftmaxLoss::Result result = loss_.forward(logits, batch.i64("label"), pass);
  return {result.loss_sum, decay_.forward(pass), result.correct, batch.valid_rows()};
}

void Classifier::backward(const Pass& pass) {
  decay_.backward(pass);  // first, so that layers have the last word on their variables
  layers_.backward(loss_.backward(), pass);
}

void Classifier::spread(const std::vector<DevicePtr>& devices) {
  const std::size_t layers = layers_.size();
  if (devices.size() > layers)
    throw Error(ErrorCode::invalid_argument, std::to_string(layers) +
                                                 " layers can't be divided among " +
                                                 std::to_string(devices.size()) + " devices");
  for (std::size_t part = devices.size(); --part > 0;)
    layers_.insert(layers * part / devices.size(), relay(devices[part - 1], devices[part]));
}

Dataset image_and_label(const Dataset& stored) {
  const Spec& spec = stored.spec();
  const Spec output({spec[spec.require("image")], spec[spec.require("label")]});
  if (spec == output) return stored;
  return stored.map(
      [](Element in) {
        return Element{{"image", in["image"]}, {"label", in["label"]}};
      },
      {.name = "image_and_label", .output = output});
}

}  // namespace penstock::towers
