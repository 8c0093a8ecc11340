#include <penstock/internal/module.h>

#include "staging/clock.h"
#include "staging/cuda/module.h"

namespace penstock {
namespace {

const CudaModule& load() {
  const auto of_this_version = [](void* symbol) {
    return reinterpret_cast<CudaModuleFn>(symbol)()->version == CudaModule::kVersion;
  };
  try {
    return *reinterpret_cast<CudaModuleFn>(
        module_symbol("libpenstock_cuda.so", kCudaModuleSymbol, of_this_version))();
  } catch (const Error& error) {
    throw Error(ErrorCode::not_found, "no CUDA here: " + error.cause());
  }
}

}  // namespace

const CudaModule& cuda_module() {
  static const CudaModule& module = load();
  return module;
}

DevicePtr open_cuda(int index) {
  static const CudaServices services{&TimeSource::real(), &log_once};
  return cuda_module().open(index, services);
}

}  // namespace penstock
