#include "staging/cuda/runtime.h"

#include <algorithm>
#include <array>

namespace penstock::cuda {
namespace {

/// The few driver functions without a counterpart in the runtime. They are requested from the
/// runtime, so that the module does not link against the driver.
struct Driver {
  CUresult (*push)(CUcontext) = nullptr;
  CUresult (*pop)(CUcontext*) = nullptr;
  CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*device)(CUdevice*, int) = nullptr;
};

template <typename F>
void find(F& function, const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  ensure(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result), name);
  function = reinterpret_cast<F>(found);
  if (found == nullptr)
    throw Error(ErrorCode::not_found, std::string("the CUDA driver has no ") + name);
}

const Driver& driver() {
  static const Driver found = [] {
    Driver made;
    find(made.push, "cuCtxPushCurrent");
    find(made.pop, "cuCtxPopCurrent");
    find(made.retain, "cuDevicePrimaryCtxRetain");
    find(made.device, "cuDeviceGet");
    return made;
  }();
  return found;
}

}  // namespace

bool is_sticky(cudaError_t error) noexcept {
  constexpr std::array kSticky{
      cudaErrorIllegalAddress,       cudaErrorLaunchTimeout,       cudaErrorLaunchFailure,
      cudaErrorHardwareStackError,   cudaErrorIllegalInstruction,  cudaErrorMisalignedAddress,
      cudaErrorInvalidAddressSpace,  cudaErrorInvalidPc,           cudaErrorAssert,
      cudaErrorECCUncorrectable,     cudaErrorNvlinkUncorrectable, cudaErrorContextIsDestroyed,
      cudaErrorDevicesUnavailable,   cudaErrorExternalDevice,      cudaErrorMpsClientTerminated,
      static_cast<cudaError_t>(226),   // cudaErrorContained, which older toolkits do not name
      static_cast<cudaError_t>(721)};  // cudaErrorTensorMemoryLeak
  return std::find(kSticky.begin(), kSticky.end(), error) != kSticky.end();
}

Status status_of(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess || error == cudaErrorNotReady) return {};
  static_cast<void>(cudaGetLastError());
  ErrorCode code = ErrorCode::unavailable;
  if (is_sticky(error)) code = ErrorCode::device_lost;
  if (error == cudaErrorMemoryAllocation) code = ErrorCode::resource_exhausted;
  return Error(code,
               what + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}

Current::Current(CUcontext context) noexcept {
  driver().push(context);
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&capture_));
}
Current::~Current() {
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&capture_));
  CUcontext popped = nullptr;
  driver().pop(&popped);
}

CUcontext primary_context(int index) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  if (driver().device(&device, index) != CUDA_SUCCESS ||
      driver().retain(&context, device) != CUDA_SUCCESS) {
    throw Error(ErrorCode::not_found,
                "cuda:" + std::to_string(index) + ": the driver can't create a context there");
  }
  return context;
}

}  // namespace penstock::cuda
