// The entry point of the module.
#include "staging/cuda/module.h"

#include <cstdlib>
#include <string>

#include "staging/cuda/device.h"
#include "staging/cuda/runtime.h"

namespace penstock::cuda {
namespace {

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int count() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return devices;
  static_cast<void>(cudaGetLastError());
  int driver = 0;
  int needed = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&needed));
  if (driver == 0) throw Error(ErrorCode::not_found, "no CUDA here: no NVIDIA driver is loaded");
  if (error == cudaErrorInsufficientDriver)
    throw Error(ErrorCode::not_found, "no CUDA here: the driver knows CUDA " +
                                          cuda_version(driver) + ", and CUDA " +
                                          cuda_version(needed) +
                                          " is needed: a newer driver, or NVIDIA's package for "
                                          "forward compatibility");
  if (error == cudaSuccess || error == cudaErrorNoDevice) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    throw Error(ErrorCode::not_found, "no CUDA here: the driver shows no device" +
                                          (visible == nullptr ? std::string()
                                                              : ", and CUDA_VISIBLE_DEVICES is \"" +
                                                                    std::string(visible) + "\""));
  }
  throw Error(ErrorCode::not_found, std::string("no CUDA here: ") + cudaGetErrorString(error) +
                                        " (" + cudaGetErrorName(error) + ")");
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
