#include <penstock/towers/layers/dense.h>

#include <optional>

#include "towers/gpu/layers.h"
#include "towers/gpu/layers/bias.h"
#include "towers/onednn.h"

namespace penstock::towers {
namespace {

class GpuDense final : public Layer {
 public:
  GpuDense(Gpu& gpu, const Scope& scope, const DenseOptions& options)
      : gpu_(gpu),
        name_(scope.prefix() + "dense"),
        options_(options),
        weights_(scope.get("weights", {options.out, options.in}, {options.initializer})),
        rounded_(gpu.array()),
        out_(gpu.array()),
        in_gradient_(gpu.array()) {
    if (options.bias)
      bias_.emplace(gpu, scope.get("biases", {options.out}, {options.bias_initializer}));
  }

  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    if (in.shape().rank() < 1 || in.row_size() != options_.in)
      wrong_shape(name_, "rows of " + std::to_string(options_.in), in.shape());
    in_ = &in;
    const std::int64_t rows = in.dim(0);
    if (gpu_.dtype() == DType::bf16) {
      rounded_.resize(weights_.value.shape());
      gpu_.run(ToBf16Plan{weights_.value.data(), rounded_.as<Bf16>()},
               static_cast<std::int64_t>(rounded_.size()));
    }
    out_.resize({rows, options_.out});
    gpu_.gemm({false, true, rows, options_.out, options_.in}, in.bytes(), weights(), out_.bytes(),
              false);
    if (bias_) bias_->add(out_);
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    const std::int64_t rows = gradient.dim(0);
    gpu_.gemm({true, false, options_.out, options_.in, rows, weights_.accumulate()},
              gradient.bytes(), in_->bytes(), weights_.gradient.bytes(), true);
    weights_.added();
    if (bias_) bias_->backward(gradient);
    if (!options_.input_gradient) return nothing_;
    in_gradient_.resize(in_->shape());
    gpu_.gemm({false, false, rows, options_.in, options_.out}, gradient.bytes(), weights(),
              in_gradient_.bytes(), false);
    return in_gradient_;
  }

 private:
  const void* weights() const {
    return gpu_.dtype() == DType::bf16 ? rounded_.bytes() : weights_.value.bytes();
  }

  Gpu& gpu_;
  const std::string name_;
  const DenseOptions options_;
  Variable& weights_;
  std::optional<GpuBias> bias_;
  const Array* in_ = nullptr;
  Array rounded_;  // the weights of this step
  Array out_, in_gradient_, nothing_;
};

}  // namespace

LayerPtr gpu_dense(Gpu& gpu, const Scope& scope, const DenseOptions& options) {
  return std::make_unique<GpuDense>(gpu, scope, options);
}

}  // namespace penstock::towers
