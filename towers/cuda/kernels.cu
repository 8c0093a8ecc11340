// Launches each plan of towers/gpu/kernels.h as a kernel, and holds nothing else. The kernels' bodies
// are in towers/gpu/bodies.h.
#include <cuda_runtime_api.h>

#include <penstock/device_backend.h>

#include "towers/gpu/bodies.h"
#include "towers/gpu/kernels.h"

namespace penstock::towers {
namespace {

const char* text_of(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

const char* enter(StreamView stream) {
  return text_of(cudaSetDevice(stream.device().id().index));
}

template <typename Plan>
struct OnDevice {
  static const char* launch(const Plan& plan, std::int64_t count, StreamView stream) {
    if (const char* error = enter(stream)) return error;
    launch_plan(plan, count, [stream]<typename Body>(const Body& body, unsigned blocks) {
      kernel<Body><<<blocks, Body::kThreads, 0,
                     static_cast<cudaStream_t>(stream.state().native())>>>(body);
    });
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
