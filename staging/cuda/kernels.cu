#include "staging/cuda/kernels.h"

namespace penstock::cuda {
namespace {

__device__ unsigned long long now_ns() {
  unsigned long long value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
  return value;
}

__global__ void busy_kernel(unsigned long long nanoseconds) {
  const unsigned long long start = now_ns();
  while (now_ns() - start < nanoseconds) __nanosleep(1000);
}

}  // namespace

cudaError_t load_kernels() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, busy_kernel);
}

cudaError_t busy(std::int64_t nanoseconds, cudaStream_t stream) {
  busy_kernel<<<1, 1, 0, stream>>>(static_cast<unsigned long long>(nanoseconds));
  return cudaPeekAtLastError();
}

}  // namespace penstock::cuda
