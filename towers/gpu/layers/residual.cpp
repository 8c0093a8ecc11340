#include <penstock/towers/layers/residual.h>

#include <utility>

#include "towers/gpu/layers.h"
#include "towers/gpu/layers/batch_norm.h"

namespace penstock::towers {
namespace {

/// A block whose body ends with a batch normalisation, which adds the shortcut and applies the relu
/// as it writes its values. A shortcut with layers ends with one, too: each of the two takes only
/// the gradients that the relu lets pass, so the gated gradient is never written to memory.
class GpuResidual final : public Layer {
 public:
  GpuResidual(Gpu& gpu, LayerPtr body, GpuBatchNorm& body_end, LayerPtr shortcut,
              GpuBatchNorm* shortcut_end)
      : gpu_(gpu),
        body_(std::move(body)),
        shortcut_(std::move(shortcut)),
        body_end_(body_end),
        shortcut_end_(shortcut_end),
        in_gradient_(gpu.array()) {}

  const Array& forward(const Array& in, const Pass& pass) override {
    body_end_.add(shortcut_ ? shortcut_->forward(in, pass) : in);
    return body_->forward(in, pass);
  }

  const Array& backward(const Array& gradient, const Pass& pass) override {
    const Array& a = body_->backward(gradient, pass);
    if (!shortcut_) {
      body_end_.add_gated(a, gradient, in_gradient_);
      return in_gradient_;
    }
    shortcut_end_->gate(body_end_.gates());
    gpu_add(gpu_, a, shortcut_->backward(gradient, pass), in_gradient_);
    return in_gradient_;
  }

 private:
  Gpu& gpu_;
  const LayerPtr body_, shortcut_;
  GpuBatchNorm& body_end_;
  GpuBatchNorm* const shortcut_end_;
  Array in_gradient_;
};

/// Returns the batch normalisation on `gpu`, without a relu, that a layer ends with. Null: it does
/// not.
GpuBatchNorm* end_of(Layer* layer, const Gpu& gpu) {
  while (auto* const several = dynamic_cast<Sequential*>(layer)) layer = several->last();
  auto* const norm = dynamic_cast<GpuBatchNorm*>(layer);
  return norm != nullptr && norm->takes_block_of(gpu) ? norm : nullptr;
}

}  // namespace

LayerPtr gpu_residual(Gpu& gpu, LayerPtr& body, LayerPtr& shortcut) {
  GpuBatchNorm* const body_end = end_of(body.get(), gpu);
  GpuBatchNorm* const shortcut_end = end_of(shortcut.get(), gpu);
  if (body_end == nullptr || (shortcut != nullptr && shortcut_end == nullptr)) return nullptr;
  return std::make_unique<GpuResidual>(gpu, std::move(body), *body_end, std::move(shortcut),
                                       shortcut_end);
}

}  // namespace penstock::towers
