// Kernel bodies: each plan of towers/gpu/kernels.h as the code of one thread of a block, written in
// CUDA's terms. towers/cuda/kernels.cu launches them. Tests run them on threads of the host
// (tests/kernels/emulator.h, which is included first and defines these terms).
#pragma once

#include <cstdint>

#include "towers/gpu/functor.h"

// For functions that only threads of blocks call.
#if defined(__CUDACC__)
#define PENSTOCK_THREAD __device__
#else
#define PENSTOCK_THREAD
#endif

namespace penstock::towers {

inline constexpr int kLanes = 128;
inline constexpr int kWarp = 32;

/// The threads of a block, as the lanes of a row. Sums are made in the same order in every run.
struct BlockLanes {
  double* shared;  ///< one value for each warp

  PENSTOCK_TWIN std::int64_t first() const {
#if defined(__CUDA_ARCH__) || defined(PENSTOCK_EMULATED)
    return threadIdx.x;
#else
    return 0;
#endif
  }
  PENSTOCK_TWIN static std::int64_t count() {
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
#if defined(__CUDA_ARCH__) || defined(PENSTOCK_EMULATED)
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const double other = __shfl_xor_sync(0xffffffffU, value, step);
      value = adds ? value + other : fmax(value, other);
    }
    __syncthreads();  // earlier shared values have been read
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
struct ValueBody {
  static constexpr unsigned kThreads = 256;
  Plan plan;
  std::int64_t count;

  PENSTOCK_THREAD void operator()() const {
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
         i += step)
      plan(i);
  }
};

template <typename Plan>
struct RowBody {
  static constexpr unsigned kThreads = kLanes;
  struct Shared {
    double sums[kLanes / kWarp];
  };
  Plan plan;
  std::int64_t count;

  PENSTOCK_THREAD void operator()(Shared& shared) const {
    for (std::int64_t row = blockIdx.x; row < count; row += gridDim.x)
      plan(row, BlockLanes{shared.sums});
  }
};

/// Calls `launch(body, blocks)` for a plan over `count` values, or rows.
template <typename Plan, typename Launch>
void launch_plan(const Plan& plan, std::int64_t count, const Launch& launch) {
  constexpr std::int64_t kMost = 1 << 14;
  const auto blocks = [](std::int64_t wanted) {
    return static_cast<unsigned>(wanted < kMost ? wanted : kMost);
  };
  if constexpr (RowPlan<Plan>) {
    launch(RowBody<Plan>{plan, count}, blocks(count));
  } else {
    constexpr std::int64_t kThreads = ValueBody<Plan>::kThreads;
    launch(ValueBody<Plan>{plan, count}, blocks((count + kThreads - 1) / kThreads));
  }
}

#if defined(__CUDACC__)

template <typename Body>
__global__ void __launch_bounds__(Body::kThreads) kernel(const __grid_constant__ Body body) {
  if constexpr (requires { typename Body::Shared; }) {
    __shared__ typename Body::Shared shared;
    body(shared);
  } else {
    body();
  }
}

#endif

}  // namespace penstock::towers
