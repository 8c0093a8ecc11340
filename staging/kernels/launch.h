// The form of our kernels. A body is plain data, passed to the device by value, with
//     static constexpr unsigned kThreads;          // of each block, whole warps
//     void operator()() const;                     // what one thread does
// or, where the threads of a block share memory, `struct Shared` and `operator()(Shared&) const`.
// A `Launch` takes a body and the number of blocks, and runs them on the device
// (staging/cuda/kernels.cu). In tests, tests/kernels/emulator.h runs them on threads of the host.
// That header is included first, and defines CUDA's keywords.
#pragma once

#include "pipeline/core/both.h"

// Marks functions that only the threads of blocks call.
#if defined(__CUDACC__)
#define PENSTOCK_DEVICE __device__
#else
#define PENSTOCK_DEVICE
#endif

namespace penstock::kernels {

/// The number of blocks in each direction. CUDA's limits are 2^31 - 1, 65,535 and 65,535.
struct Grid {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};
inline constexpr std::int64_t kMostY = 65535;

/// Returns `wanted`, limited to 1 to `most`.
constexpr unsigned blocks(std::int64_t wanted, std::int64_t most) {
  return static_cast<unsigned>(both::clamp<std::int64_t>(wanted, 1, most));
}

template <typename Body>
concept Shares = requires {
  typename Body::Shared;
};

#if defined(__CUDACC__)

template <typename Body>
__global__ void __launch_bounds__(Body::kThreads) kernel(const __grid_constant__ Body body) {
  if constexpr (Shares<Body>) {
    __shared__ typename Body::Shared shared;
    body(shared);
  } else {
    body();
  }
}

#endif

}  // namespace penstock::kernels
