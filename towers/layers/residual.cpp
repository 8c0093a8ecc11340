#include <penstock/towers/layers/residual.h>

#include <utility>

#include <penstock/towers/layers/relu.h>

#include "towers/gpu/layers.h"

namespace penstock::towers {
namespace {

class Residual final : public Layer {
 public:
  Residual(const Scope& scope, LayerPtr body, LayerPtr shortcut)
      : name_(scope.prefix() + "residual"),
        gpu_(scope.gpu()),
        body_(std::move(body)),
        shortcut_(std::move(shortcut)),
        end_(relu(scope)) {
    if (gpu_ == nullptr) return;
    sum_ = gpu_->array();
    in_gradient_ = gpu_->array();
  }

  const Array& forward(const Array& in, const Pass& pass) override {
    // The order of exchanges of synchronised layers, the same on every device.
    const Array& b = shortcut_ ? shortcut_->forward(in, pass) : in;
    const Array& a = body_->forward(in, pass);
    if (!(a.shape() == b.shape())) wrong_shape(name_, a.shape().to_string(), b.shape());
    add(a, b, sum_);
    return end_->forward(sum_, pass);
  }

  const Array& backward(const Array& gradient, const Pass& pass) override {
    const Array& outer = end_->backward(gradient, pass);
    const Array& a = body_->backward(outer, pass);
    const Array& b = shortcut_ ? shortcut_->backward(outer, pass) : outer;
    add(a, b, in_gradient_);
    return in_gradient_;
  }

 private:
  void add(const Array& a, const Array& b, Array& sum) {
    if (gpu_ != nullptr) return gpu_add(*gpu_, a, b, sum);
    sum.resize(a.shape());
    for (std::size_t i = 0; i < a.size(); ++i) sum.data()[i] = a.data()[i] + b.data()[i];
  }

  const std::string name_;
  Gpu* const gpu_;
  const LayerPtr body_, shortcut_, end_;
  Array sum_, in_gradient_;
};

}  // namespace

LayerPtr residual(const Scope& scope, LayerPtr body, LayerPtr shortcut) {
  if (Gpu* gpu = scope.gpu())
    if (LayerPtr fused = gpu_residual(*gpu, body, shortcut)) return fused;
  return std::make_unique<Residual>(scope, std::move(body), std::move(shortcut));
}

}  // namespace penstock::towers
