#include "towers/gpu/descriptors.h"
#include "towers/gpu/layers.h"

namespace penstock::towers {
namespace {

class GpuRelu final : public Layer {
 public:
  explicit GpuRelu(Gpu& gpu)
      : gpu_(gpu),
        form_(gpu, gpu.cudnn().create_activation, gpu.cudnn().destroy_activation),
        desc_(gpu),
        out_(gpu.array()),
        in_gradient_(gpu.array()) {
    gpu.check_cudnn(gpu.cudnn().set_activation(form_.get(), Cudnn::kRelu, Cudnn::kPropagateNan, 0));
  }

  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    gpu_.enter();
    in_ = &in;
    out_.resize(in.shape());
    describe(gpu_, desc_, in.shape());
    gpu_.check_cudnn(gpu_.cudnn().activate(gpu_.cudnn_handle(), form_.get(), &kOne, desc_.get(),
                                           in.bytes(), &kZero, desc_.get(), out_.bytes()));
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    gpu_.enter();
    in_gradient_.resize(out_.shape());
    gpu_.check_cudnn(gpu_.cudnn().activate_back(
        gpu_.cudnn_handle(), form_.get(), &kOne, desc_.get(), out_.bytes(), desc_.get(),
        gradient.bytes(), desc_.get(), in_->bytes(), &kZero, desc_.get(), in_gradient_.bytes()));
    return in_gradient_;
  }

 private:
  Gpu& gpu_;
  const Descriptor form_;
  const TensorDescriptor desc_;
  const Array* in_ = nullptr;
  Array out_, in_gradient_;
};

}  // namespace

LayerPtr gpu_relu(Gpu& gpu) {
  return std::make_unique<GpuRelu>(gpu);
}

}  // namespace penstock::towers
