// The launches of our kernels. Their bodies are in staging/kernels.
#include "staging/cuda/kernels.h"

#include "staging/cuda/launcher.h"
#include "staging/kernels/finish.h"

namespace penstock::cuda {

cudaError_t load_kernels() {
  Loader loader;
  for (const FinishType type : {FinishType::f32, FinishType::f16, FinishType::bf16}) {
    for (const int first : {0, 1}) {
      for (const int channels : {1, 2, 3, 4}) {
        FinishPlan plan;
        plan.type = type;
        plan.channels_first = first;
        plan.channels = channels;
        kernels::finish(plan, loader);
      }
    }
    kernels::one_hot({.type = type}, loader);
  }
  loader(kernels::BusyBody{}, {});
  return loader.error() == cudaSuccess ? load_reconstruction() : loader.error();
}

cudaError_t finish(const FinishPlan& plan, cudaStream_t stream) {
  return launched([&] { kernels::finish(plan, Launcher{stream}); });
}

cudaError_t one_hot(const OneHotPlan& plan, cudaStream_t stream) {
  return launched([&] { kernels::one_hot(plan, Launcher{stream}); });
}

cudaError_t busy(std::int64_t nanoseconds, cudaStream_t stream) {
  return launched([&] {
    Launcher{stream}(kernels::BusyBody{static_cast<unsigned long long>(nanoseconds)}, {});
  });
}

}  // namespace penstock::cuda
