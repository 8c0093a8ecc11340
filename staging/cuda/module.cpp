// The module's entry.
#include "staging/cuda/module.h"

#include <string>

#include "staging/cuda/device.h"
#include "staging/cuda/runtime.h"

namespace penstock::cuda {
namespace {

int count() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return devices;
  static_cast<void>(cudaGetLastError());
  if (error == cudaSuccess || error == cudaErrorNoDevice)
    throw Error(ErrorCode::not_found, "no CUDA device is visible");
  throw Error(ErrorCode::not_found, std::string("no CUDA here: ") + cudaGetErrorString(error));
}

DevicePtr open(int index, const CudaServices& services) {
  const int devices = count();
  if (index >= devices) {
    throw Error(ErrorCode::not_found, "cuda:" + std::to_string(index) + ": there are " +
                                          std::to_string(devices) + " CUDA devices");
  }
  return make_device(index, services);
}

}  // namespace
}  // namespace penstock::cuda

extern "C" __attribute__((visibility("default"))) const penstock::CudaModule*
penstock_cuda_module() {
  static const penstock::CudaModule module{
      penstock::CudaModule::kVersion, &penstock::cuda::count,      &penstock::cuda::open,
      &penstock::cuda::finish_on,     &penstock::cuda::one_hot_on, &penstock::cuda::reconstruct_on};
  return &module;
}
