// What the library asks of its CUDA module, which is opened when a cuda device is.
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

/// What the module gets from the library: its own copies of such things are not the program's.
struct CudaServices {
  TimeSource* clock = nullptr;
  void (*log_once)(LogLevel level, std::string_view once, std::string_view message) = nullptr;
};

/// What the module offers.
struct CudaModule {
  static constexpr int kVersion = 6;
  int version = kVersion;
  /// Devices that CUDA_VISIBLE_DEVICES leaves. Throws Error{not_found}, saying what is missing.
  int (*count)() = nullptr;
  /// Throws Error{not_found}. Makes a context on this device alone.
  DevicePtr (*open)(int index, const CudaServices& services) = nullptr;
  /// Kernels over `volume` values of the output.
  void (*finish)(const FinishPlan& plan, std::int64_t volume, StreamView stream) = nullptr;
  void (*one_hot)(const OneHotPlan& plan, std::int64_t volume, StreamView stream) = nullptr;
  /// Packed images to their output.
  void (*reconstruct)(const reconstruct::Batch& batch, StreamView stream) = nullptr;
};

/// Exported by the module under this name.
inline constexpr const char* kCudaModuleSymbol = "penstock_cuda_module";
using CudaModuleFn = const CudaModule* (*)();

/// Opens the module, once. Throws Error{not_found} if it can't be opened, and why.
const CudaModule& cuda_module();
DevicePtr open_cuda(int index);

}  // namespace penstock
