#include <penstock/towers/classifier.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <penstock/error.h>
#include <penstock/log.h>
#include <penstock/towers/model_input.h>

#include "towers/evaluate/class_shares.h"
#include "towers/gpu/carrier.h"
#include "towers/gpu/gpu.h"
#include "towers/label_check.h"
#include "towers/layers/relay.h"

namespace penstock::towers {

Classifier::Classifier() = default;
Classifier::~Classifier() = default;

void SameLabels::look_at(std::span<const std::int64_t> labels, int tower) {
  if (done_ || labels.empty()) return;
  if (rows_ == 0) first_ = labels.front();
  rows_ += static_cast<std::int64_t>(labels.size());
  done_ = std::ranges::any_of(labels, [this](std::int64_t label) { return label != first_; });
  if (done_ || rows_ < kRows) return;
  done_ = true;
  log(LogLevel::warning, "the first " + std::to_string(rows_) + " rows of tower " +
                             std::to_string(tower) + " all have label " + std::to_string(first_) +
                             ": the data have one class, or are sorted by class; shuffle them");
}

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
  const float* weights = batch.weights();
  if (pass.training && pass.gpu == nullptr)
    same_labels_.look_at(labels.first(static_cast<std::size_t>(batch.valid_rows())), pass.tower);
  Pass at_loss = pass;
  if (carrier_) {
    const Array landed = Array::view(const_cast<std::int64_t*>(labels.data()),  // NOLINT: is read
                                     DType::i64, {static_cast<std::int64_t>(labels.size())});
    labels = {carrier_->carry(landed).as<std::int64_t>(), labels.size()};
    if (weights != nullptr)
      weights =
          weights_carrier_->carry(Array::view(weights, {static_cast<std::int64_t>(labels.size())}))
              .data();
    at_loss.gpu = last_gpu_;
  }
  logits_ = &layers_.forward(*image, pass);
  const SoftmaxLoss::Result result = loss_.forward(*logits_, labels, at_loss, weights);
  return {result.loss_sum, decay_.forward(pass), result.correct, batch.valid_rows()};
}

void Classifier::backward(const Pass& pass) {
  decay_.backward(pass);  // first, because layers report their gradients as final
  layers_.backward(loss_.backward(), pass);
}

Array Classifier::scores(const Pass& pass) {
  return shares_of(f32_on_host(carrier_ ? last_gpu_ : pass.gpu, *logits_));
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
  carrier_ = std::make_unique<Carrier>(*parts[0].gpu, *last_gpu_);
  weights_carrier_ = std::make_unique<Carrier>(*parts[0].gpu, *last_gpu_);
}

Dataset image_and_label(const Dataset& stored, std::int64_t classes) {
  const Spec& spec = stored.spec();
  std::vector<ComponentSpec> kept{spec[spec.require("image")], spec[spec.require("label")]};
  for (const ComponentSpec& carried : carried_in("a classifier", spec)) kept.push_back(carried);
  const Spec output(kept);
  if (spec == output) return with_label_check(stored, classes);
  return stored.map(
      [names = std::move(kept), check = LabelCheck(stored, classes)](Element in) {
        check(in, in["label"].item<std::int64_t>());
        Element out;
        for (const ComponentSpec& component : names) out.set(component.name, in[component.name]);
        return out;
      },
      {.name = "image_and_label", .output = output});
}

}  // namespace penstock::towers
