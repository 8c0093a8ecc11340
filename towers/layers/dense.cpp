#include <penstock/towers/layers/dense.h>

#include "towers/gpu/layers.h"
#include "towers/onednn.h"

namespace penstock::towers {
namespace {

class Dense final : public Layer {
 public:
  Dense(const Scope& scope, const DenseOptions& options)
      : name_(scope.prefix() + "dense"),
        options_(options),
        weights_(scope.get("weights", {options.out, options.in}, {options.initializer})),
        biases_(options.bias ? &scope.get("biases", {options.out}, {options.bias_initializer})
                             : nullptr) {}

  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    if (in.shape().rank() < 1 || in.row_size() != options_.in)
      wrong_shape(name_, "rows of " + std::to_string(options_.in), in.shape());
    in_ = &in;
    const std::int64_t rows = in.dim(0);
    out_.resize({rows, options_.out});
    gemm({false, true, rows, options_.out, options_.in}, in.data(), weights_.value.data(),
         out_.data());
    if (biases_ == nullptr) return out_;
    const float* bias = biases_->value.data();
    for (std::int64_t row = 0; row < rows; ++row) {
      float* to = out_.data() + row * options_.out;
      for (std::int64_t i = 0; i < options_.out; ++i) to[i] += bias[i];
    }
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    const std::int64_t rows = gradient.dim(0);
    gemm({true, false, options_.out, options_.in, rows, weights_.accumulate()}, gradient.data(),
         in_->data(), weights_.gradient.data());
    weights_.added();
    if (biases_ != nullptr) {
      if (biases_->accumulate() == 0) biases_->gradient.fill(0);
      float* sum = biases_->gradient.data();
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t i = 0; i < options_.out; ++i)
          sum[i] += gradient.data()[row * options_.out + i];
      biases_->added();
    }
    if (!options_.input_gradient) return nothing_;
    in_gradient_.resize(in_->shape());
    gemm({false, false, rows, options_.in, options_.out}, gradient.data(), weights_.value.data(),
         in_gradient_.data());
    return in_gradient_;
  }

 private:
  const std::string name_;
  const DenseOptions options_;
  Variable& weights_;
  Variable* const biases_;
  const Array* in_ = nullptr;
  Array out_, in_gradient_, nothing_;
};

}  // namespace

LayerPtr dense(const Scope& scope, const DenseOptions& options) {
  if (Gpu* gpu = scope.gpu()) return gpu_dense(*gpu, scope, options);
  return std::make_unique<Dense>(scope, options);
}

}  // namespace penstock::towers
