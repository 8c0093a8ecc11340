#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <vector>

#include "staging/clock.h"
#include "staging/cuda/module.h"

namespace penstock {
namespace {

constexpr const char* kFile = "libpenstock_cuda.so";

const CudaModule& load() {
  // Beside the program, in the library folder beside it, and wherever the linker looks.
  std::vector<std::string> paths;
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  if (!ignored) {
    for (const char* folder : {".", "../lib", "../lib64", "../lib/x86_64-linux-gnu"})
      paths.push_back(program / folder / kFile);
  }
  paths.emplace_back(kFile);
  std::string why;
  for (const std::string& path : paths) {
    if (path != kFile && !std::filesystem::exists(path, ignored)) continue;
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays for good
    if (module == nullptr) {
      const char* said = dlerror();
      if (why.empty() && said != nullptr) why = said;
      continue;
    }
    if (void* symbol = dlsym(module, kCudaModuleSymbol)) {
      const CudaModule& found = *reinterpret_cast<CudaModuleFn>(symbol)();
      if (found.version == CudaModule::kVersion) return found;
    }
    why = path + " is not of this version";
  }
  throw Error(ErrorCode::not_found, "no CUDA here: the module can't be opened: " + why);
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
