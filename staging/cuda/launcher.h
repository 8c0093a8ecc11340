// The only way in which our kernels are launched on GPUs, or loaded.
#pragma once

#include <cuda_runtime_api.h>

#include "staging/kernels/launch.h"

namespace penstock::cuda {

/// Launches kernels on a stream.
struct Launcher {
  cudaStream_t stream;

  template <typename Body>
  void operator()(const Body& body, kernels::Grid grid) const {
    kernels::kernel<Body><<<dim3(grid.x, grid.y, grid.z), Body::kThreads, 0, stream>>>(body);
  }
};

/// Loads kernels instead of launching them, so that no first use has to load one.
class Loader {
 public:
  template <typename Body>
  void operator()(const Body& /*body*/, kernels::Grid /*grid*/) const {
    cudaFuncAttributes attributes;
    if (error_ == cudaSuccess) error_ = cudaFuncGetAttributes(&attributes, kernels::kernel<Body>);
  }
  cudaError_t error() const { return error_; }

 private:
  mutable cudaError_t error_ = cudaSuccess;
};

/// Returns the error of the launches, without clearing it for later callers.
template <typename Do>
cudaError_t launched(const Do& launches) {
  launches();
  return cudaPeekAtLastError();
}

}  // namespace penstock::cuda
