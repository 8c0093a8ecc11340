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
  std::span<const std::int64_t> labels = batch.i64("label");
  Pass at_loss = pass;
  if (carrier_) {
    const Array landed = Array::view(const_cast<std::int64_t*>(labels.data()),  // NOLINT: is read
                                     DType::i64, {static_cast<std::int64_t>(labels.size())});
    labels = {carrier_->carry(landed).as<std::int64_t>(), labels.size()};
    at_loss.gpu = last_gpu_;
  }
  const Array& logits = layers_.forward(*image, pass);
  const SoftmaxLoss::Result result = loss_.forward(logits, labels, at_loss);
  return {result.loss_sum, decay_.forward(pass), result.correct, batch.valid_rows()};
}

void Classifier::backward(const Pass& pass) {
  decay_.backward(pass);  // first, so that layers have the last word on their variables
  layers_.backward(loss_.backward(), pass);
}

void Classifier::build(const Scope& scope, const std::vector<LayerMaker>& makers) {
  const std::span<const Part> parts = scope.parts();
  if (parts.size() > makers.size())
    throw Error(ErrorCode::invalid_argument, std::to_string(makers.size()) +
                                                 " layers can't be divided among " +
                                                 std::to_string(parts.size()) + " devices");
  std::size_t part = 0;
  for (std::size_t i = 0; i < makers.size(); ++i) {
    if (part + 1 < parts.size() && i == makers.size() * (part + 1) / parts.size()) {
      layers_.add(relay(parts[part], parts[part + 1]));
      ++part;
    }
    layers_.add(makers[i](scope.on(part)));
  }
  if (part == 0 || parts[part].gpu == nullptr) return;
  last_gpu_ = parts[part].gpu;
  carrier_.emplace(*parts[0].gpu, *last_gpu_);
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
