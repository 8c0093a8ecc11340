// Error checks for the CUDA runtime, and its current device.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include <penstock/error.h>

namespace penstock::cuda {

/// True for errors after which the context is unusable.
bool is_sticky(cudaError_t error) noexcept;

/// Returns ok, or the error that the runtime reports. Clears errors that can be cleared. Throws
/// only if memory runs out.
Status status_of(cudaError_t error, const std::string& what);
/// Throws the error that `status_of` returns, if any.
inline void ensure(cudaError_t error, const std::string& what) {
  const Status status = status_of(error, what);
  if (!status.ok()) throw status.error();
}

/// Makes a device's primary context current for a scope. It does not use cudaSetDevice. That would
/// make a context on the device that it switches back to, even if that device is unused. Calls in
/// the scope do not disturb another thread that captures a graph.
class Current {
 public:
  explicit Current(CUcontext context) noexcept;
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  // This scope's mode; once exchanged, the thread's own.
  cudaStreamCaptureMode capture_ = cudaStreamCaptureModeRelaxed;
};

/// Returns the device's primary context, and makes it if necessary. Throws Error{not_found}.
CUcontext primary_context(int index);

}  // namespace penstock::cuda
