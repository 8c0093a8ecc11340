// Threads that work on one thing together: of a block of CUDA's, or none but the caller.
#pragma once

#include "pipeline/core/both.h"

namespace penstock::reconstruct {

/// One thread that does it all, in order.
struct Alone {
  template <typename Do>
  PENSTOCK_BOTH void each(int count, const Do& work) const {
    for (int i = 0; i < count; ++i) work(i);
  }
};

#if defined(__CUDACC__)

/// The threads of a block; `each` ends when all have done theirs.
struct Block {
  template <typename Do>
  PENSTOCK_BOTH void each(int count, const Do& work) const {
#if defined(__CUDA_ARCH__)
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
      work(i);
    __syncthreads();
#else
    static_cast<void>(count);
    static_cast<void>(work);
#endif
  }
};

#endif

}  // namespace penstock::reconstruct
