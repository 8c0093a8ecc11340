// The common part of the image classifiers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <penstock/towers/layers/l2.h>
#include <penstock/towers/layers/softmax_loss.h>
#include <penstock/towers/model.h>

namespace penstock::towers {

class Carrier;

/// A check that warns if all labels are the same. Used by one thread.
class SameLabels {
 public:
  /// The number of rows after which it warns, once.
  static constexpr std::int64_t kRows = 1000;
  /// Looks at the labels of rows that a tower trains on.
  void look_at(std::span<const std::int64_t> labels, int tower);

 private:
  std::int64_t first_ = 0, rows_ = 0;
  bool done_ = false;
};

/// A model that ends in logits, with softmax cross-entropy and weight decay. It takes {image: f32
/// [n,h,w,c], label: i64 [n]}, and uses kWeight: f32 [n] if it is there.
class Classifier : public Model {
 public:
  Classifier();
  ~Classifier() override;
  Loss forward(const Batch& batch, const Pass& pass) override;
  void backward(const Pass& pass) override;
  /// Returns the softmax of the logits.
  Array scores(const Pass& pass) override;

 protected:
  /// A callable that makes a layer.
  using LayerMaker = std::function<LayerPtr(const Scope&)>;
  /// Makes the layers, one after the other. If the scope has parts, the layers are divided evenly
  /// among them, and activations are copied from one part to the next. Throws
  /// Error{invalid_argument} for more parts than layers.
  void build(const Scope& scope, const std::vector<LayerMaker>& makers);
  L2 decay_;  ///< the weight decay, part of the loss

 private:
  Sequential layers_;
  Gpu* last_gpu_ = nullptr;  // where the loss is
  // Of labels and weights, if that is not where they are:
  std::unique_ptr<Carrier> carrier_, weights_carrier_;
  const Array* logits_ = nullptr;
  SameLabels same_labels_;
  Array image_;
  Array rounded_;  // on a GPU that computes in bf16
  SoftmaxLoss loss_;
};

/// Keeps only the components `image` and `label`, and those that are carried along (`carried_in`).
/// Labels of `classes` or more are errors of their records; 0: any are allowed.
Dataset image_and_label(const Dataset& stored, std::int64_t classes = 0);

}  // namespace penstock::towers
