// What the image classifiers have in common.
#pragma once

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
  /// As many layers, or one more, on each device; activations are copied from one to the next.
  void spread(const std::vector<DevicePtr>& devices) override;

 protected:
  Sequential layers_;
  L2 decay_;

 private:
  Array image_;
  Array rounded_;  // on a GPU that computes in bf16
  SoftmaxLoss loss_;
};

/// Elements with their components `image` and `label` alone.
Dataset image_and_label(const Dataset& stored);

}  // namespace penstock::towers
