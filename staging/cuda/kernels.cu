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

constexpr int kThreads = 256;

__global__ void finish_kernel(const FinishPlan plan, std::int64_t volume) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       at < volume; at += step)
    finish_value(plan, at);
}

__global__ void one_hot_kernel(const OneHotPlan plan, std::int64_t volume) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       at < volume; at += step)
    one_hot_value(plan, at);
}

unsigned blocks_for(std::int64_t volume) {
  constexpr std::int64_t kMost = 1 << 14;
  const std::int64_t wanted = (volume + kThreads - 1) / kThreads;
  return static_cast<unsigned>(wanted < kMost ? wanted : kMost);
}

}  // namespace

cudaError_t load_kernels() {
  cudaFuncAttributes attributes;
  cudaError_t error = cudaFuncGetAttributes(&attributes, busy_kernel);
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, finish_kernel);
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, one_hot_kernel);
  if (error == cudaSuccess) error = load_reconstruction();
  return error;
}

cudaError_t finish(const FinishPlan& plan, std::int64_t volume, cudaStream_t stream) {
  finish_kernel<<<blocks_for(volume), kThreads, 0, stream>>>(plan, volume);
  return cudaPeekAtLastError();
}

cudaError_t one_hot(const OneHotPlan& plan, std::int64_t volume, cudaStream_t stream) {
  one_hot_kernel<<<blocks_for(volume), kThreads, 0, stream>>>(plan, volume);
  return cudaPeekAtLastError();
}

cudaError_t busy(std::int64_t nanoseconds, cudaStream_t stream) {
  busy_kernel<<<1, 1, 0, stream>>>(static_cast<unsigned long long>(nanoseconds));
  return cudaPeekAtLastError();
}

}  // namespace penstock::cuda
