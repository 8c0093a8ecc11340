#include <penstock/towers/layers/relu.h>

#include "towers/gpu/layers.h"

namespace penstock::towers {
namespace {

/// A value that is not above 0 is one that is at most 0, or NaN, which stays and passes its
/// gradient, as in PyTorch.
class Relu final : public Layer {
 public:
  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    out_.resize(in.shape());
    const float* from = in.data();
    float* to = out_.data();
    for (std::size_t i = 0; i < in.size(); ++i) to[i] = from[i] <= 0 ? 0 : from[i];
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    in_gradient_.resize(out_.shape());
    const float* from = gradient.data();
    const float* out = out_.data();
    float* to = in_gradient_.data();
    for (std::size_t i = 0; i < out_.size(); ++i) to[i] = out[i] <= 0 ? 0 : from[i];
    return in_gradient_;
  }

 private:
  Array out_, in_gradient_;
};

}  // namespace

LayerPtr relu(const Scope& scope) {
  if (Gpu* gpu = scope.gpu()) return gpu_relu(*gpu);
  return std::make_unique<Relu>();
}

}  // namespace penstock::towers
