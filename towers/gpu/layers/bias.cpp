#include "towers/gpu/layers/bias.h"

namespace penstock::towers {
GpuBias::GpuBias(Gpu& gpu, Variable& biases)
    : gpu_(gpu), biases_(biases), one_(gpu), all_(gpu), rounded_(gpu.array()) {
  describe(gpu, one_, {1, static_cast<std::int64_t>(biases.value.size())});
  if (gpu.dtype() == DType::bf16) rounded_.resize(biases.value.shape());
}

void GpuBias::add(Array& activations) {
  describe(gpu_, all_, activations.shape());
  const void* biases = biases_.value.bytes();
  if (gpu_.dtype() == DType::bf16) {
    gpu_.run(ToBf16Plan{biases_.value.data(), rounded_.as<Bf16>()},
             static_cast<std::int64_t>(rounded_.size()));
    biases = rounded_.bytes();
  }
  gpu_.check_cudnn(gpu_.cudnn().add(gpu_.cudnn_handle(), &kOne, one_.get(), biases, &kOne,
                                    all_.get(), activations.bytes()));
}

void GpuBias::backward(const Array& gradient) {
  describe(gpu_, all_, gradient.shape());
  const bool rounds = gpu_.dtype() == DType::bf16;
  const float keep = biases_.accumulate();
  gpu_.check_cudnn(gpu_.cudnn().bias_gradient(
      gpu_.cudnn_handle(), &kOne, all_.get(), gradient.bytes(), rounds ? &kZero : &keep, one_.get(),
      rounds ? rounded_.bytes() : biases_.gradient.bytes()));
  if (rounds)
    gpu_.run(UnpackWeightsPlan<Bf16>{rounded_.as<Bf16>(), biases_.gradient.data(), 1, 1, keep},
             static_cast<std::int64_t>(rounded_.size()));
  biases_.added();
}

}  // namespace penstock::towers
