// Checks, and the current device, of the CUDA runtime.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include <penstock/error.h>

namespace penstock::cuda {

/// True for errors after which the context can't be used any more.
bool is_sticky(cudaError_t error) noexcept;

/// Ok, or what the runtime says; clears what can be cleared. Never throws but for memory.
Status status_of(cudaError_t error, const std::string& what);
/// The same, thrown.
inline void ensure(cudaError_t error, const std::string& what) {
  const Status status = status_of(error, what);
  if (!status.ok()) throw status.error();
}

/// Makes a device's primary context current for a scope. cudaSetDevice would make a context on the
/// device that it goes back to, also if nobody uses that one. What is called in the scope does not
/// disturb another thread that captures a graph.
class Current {
 public:
  explicit Current(CUcontext context) noexcept;
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  cudaStreamCaptureMode capture_ = cudaStreamCaptureModeRelaxed;  // here; then, the thread's own
};

/// The device's primary context, made if there is none. Throws Error{not_found}.
CUcontext primary_context(int index);

}  // namespace penstock::cuda
