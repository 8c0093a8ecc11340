// What the image classifiers have in common.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "towers/gpu/carrier.h"
#include "towers/layers/l2.h"
#include "towers/layers/softmax_loss.h"
#include "towers/model.h"

namespace penstock::towers {

/// {image: f32 [n,h,w,c], label: i64 [n]} through layers that end in logits, then softmax
/// cross-entropy and weight decay.
class Classifier : public Model {
 public:
  Loss forward(const Batch& batch, const Pass& pass) override;
  void backward(const Pass& pass) override;

 protected:
  using LayerMaker = std::function<LayerPtr(const Scope&)>;
  /// Makes the layers, one behind the other. Where the scope has parts each gets as many, or one
  /// more, and activations are copied from one to the next. Throws Error{invalid_argument} for more
  /// parts than layers.
  void build(const Scope& scope, const std::vector<LayerMaker>& makers);
  L2 decay_;

 private:
  Sequential layers_;
  Gpu* last_gpu_ = nullptr;         // where the loss is
  std::optional<Carrier> carrier_;  // of labels, if that is not where they are
  Array image_;
  Array rounded_;  // on a GPU that computes in bf16
  SoftmaxLoss loss_;
};

/// Elements with their components `image` and `label` alone.
Dataset image_and_label(const Dataset& stored);

}  // namespace penstock::towers
