// The module: each plan of towers/gpu/kernels.h as a kernel.
#include <cuda_runtime_api.h>

#include <penstock/device_backend.h>

#include "towers/gpu/kernels.h"

namespace penstock::towers {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 128;
constexpr int kWarp = 32;

/// The threads of a block, as the lanes of a row. Sums are made in an order that is the same in
/// every run.
struct BlockLanes {
  double* shared;

  PENSTOCK_TWIN std::int64_t first() const {
#if defined(__CUDA_ARCH__)
    return threadIdx.x;
#else
    return 0;
#endif
  }
  PENSTOCK_TWIN std::int64_t count() const {
    return kLanes;
  }
  PENSTOCK_TWIN double sum(double value) const {
    return all(value, true);
  }
  PENSTOCK_TWIN double max(double value) const {
    return all(value, false);
  }

 private:
  PENSTOCK_TWIN double all(double value, bool adds) const {
#if defined(__CUDA_ARCH__)
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const double other = __shfl_xor_sync(0xffffffffU, value, step);
      value = adds ? value + other : fmax(value, other);
    }
    __syncthreads();  // what was shared before has been read
    if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = shared[0];
    for (int warp = 1; warp < kLanes / kWarp; ++warp)
      value = adds ? value + shared[warp] : fmax(value, shared[warp]);
#else
    static_cast<void>(adds);
#endif
    return value;
  }
};

template <typename Plan>
__global__ void kernel(const Plan plan, std::int64_t count) {
  if constexpr (RowPlan<Plan>) {
    __shared__ double shared[kLanes / kWarp];
    for (std::int64_t row = blockIdx.x; row < count; row += gridDim.x)
      plan(row, BlockLanes{shared});
  } else {
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
         i += step)
      plan(i);
  }
}

const char* text_of(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

const char* enter(StreamView stream) {
  return text_of(cudaSetDevice(stream.device().id().index));
}

template <typename Plan>
struct OnDevice {
  static const char* launch(const Plan& plan, std::int64_t count, StreamView stream) {
    constexpr std::int64_t kMost = 1 << 14;
    const std::int64_t wanted = RowPlan<Plan> ? count : (count + kThreads - 1) / kThreads;
    const auto blocks = static_cast<unsigned>(wanted < kMost ? wanted : kMost);
    if (const char* error = enter(stream)) return error;
    kernel<Plan><<<blocks, RowPlan<Plan> ? kLanes : kThreads, 0,
                   static_cast<cudaStream_t>(stream.state().native())>>>(plan, count);
    return text_of(cudaGetLastError());
  }
};

}  // namespace
}  // namespace penstock::towers

extern "C" __attribute__((visibility("default"))) const penstock::towers::Kernels*
penstock_towers_kernels() {
  using namespace penstock::towers;
  static const Kernels kernels{Kernels::kVersion, Launches::made<OnDevice>(), &enter};
  return &kernels;
}
