// The interface between the library and its CUDA module, which is opened with the first cuda
// device.
#pragma once

#include <cstdint>
#include <string_view>

#include <penstock/device_backend.h>
#include <penstock/log.h>

namespace penstock {

struct FinishPlan;
struct OneHotPlan;
namespace reconstruct {
struct Batch;
}

/// The services that the library passes to the module. The module must use these, because its own
/// copies of them are not those of the program.
struct CudaServices {
  TimeSource* clock = nullptr;
  bool (*log_once)(LogLevel level, std::string_view once, std::string_view message) = nullptr;
};

/// The functions that the module offers.
struct CudaModule {
  static constexpr int kVersion = 10;
  int version = kVersion;
  /// Returns the number of devices that CUDA_VISIBLE_DEVICES leaves. Throws Error{not_found} that
  /// says what is missing.
  int (*count)() = nullptr;
  /// Opens a device, and makes a context on that device alone. Throws Error{not_found}.
  DevicePtr (*open)(int index, const CudaServices& services) = nullptr;
  /// These launch the finishing kernels. The output must not be empty.
  void (*finish)(const FinishPlan& plan, StreamView stream) = nullptr;
  void (*one_hot)(const OneHotPlan& plan, StreamView stream) = nullptr;
  /// Computes the output of a batch of packed images; without an output, only decodes JPEGs.
  void (*reconstruct)(const reconstruct::Batch& batch, StreamView stream) = nullptr;
};

/// The name under which the module exports a CudaModuleFn.
inline constexpr const char* kCudaModuleSymbol = "penstock_cuda_module";
using CudaModuleFn = const CudaModule* (*)();

/// Opens the module, once. If it can't be opened, throws Error{not_found} that says why.
const CudaModule& cuda_module();
DevicePtr open_cuda(int index);

}  // namespace penstock
