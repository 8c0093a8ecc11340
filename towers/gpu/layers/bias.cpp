#include "towers/gpu/layers/bias.h"

#include "towers/gpu/channel_sums.h"

namespace penstock::towers {
GpuBias::GpuBias(Gpu& gpu, Variable& biases)
    : gpu_(gpu),
      biases_(biases),
      one_(gpu),
      all_(gpu),
      rounded_(gpu.array()),
      totals_(gpu.array(DType::f64)) {
  const auto channels = static_cast<std::int64_t>(biases.value.size());
  describe(gpu, one_, {1, channels});
  totals_.resize({2, channels});
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
  const auto channels = static_cast<std::int64_t>(biases_.value.size());
  sum_channels(gpu_,
               {.what = Sums::moments,
                .in = gradient,
                .rows = static_cast<std::int64_t>(gradient.size()) / channels,
                .channels = channels},
               totals_);
  gpu_.run(GradientPlan{totals_.as<double>(), biases_.gradient.data(), biases_.accumulate()},
           channels);
  biases_.added();
}

}  // namespace penstock::towers
