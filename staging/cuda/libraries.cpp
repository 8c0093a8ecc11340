#include "staging/cuda/libraries.h"

#include <dlfcn.h>

#include <array>
#include <vector>

namespace penstock::cuda {
namespace {

struct Known {
  const char* name;
  std::vector<const char*> files;  // the first that is there
  const char* version;             // a function that returns it, or fills it in
};

std::string dotted(std::size_t number, std::size_t unit) {
  return std::to_string(number / (unit * 100)) + "." + std::to_string(number / unit % 100) + "." +
         std::to_string(number % unit);
}

/// cudnnGetVersion and cublasLtGetVersion return 91002 and 130100, ncclGetVersion fills in 22703.
std::string version_of(const std::string& name, void* function) {
  if (function == nullptr) return "unknown";
  if (name == "NCCL") {
    int number = 0;
    if (reinterpret_cast<int (*)(int*)>(function)(&number) != 0 || number < 0) return "unknown";
    return dotted(static_cast<std::size_t>(number), 100);
  }
  const std::size_t number = reinterpret_cast<std::size_t (*)()>(function)();
  return dotted(number, 100);
}

CudaLibrary open(const Known& known) {
  CudaLibrary library{known.name};
  for (const char* file : known.files) {
    library.handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);  // stays for good
    if (library.handle != nullptr) break;
    const char* said = dlerror();
    if (library.version.empty() && said != nullptr) library.version = said;
  }
  if (library.handle != nullptr)
    library.version = version_of(library.name, dlsym(library.handle, known.version));
  return library;
}

}  // namespace

std::span<const CudaLibrary> libraries() {
  static const std::array<CudaLibrary, 3> opened{
      open({"cuDNN", {"libcudnn.so.9"}, "cudnnGetVersion"}),
      open({"cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, "cublasLtGetVersion"}),
      open({"NCCL", {"libnccl.so.2"}, "ncclGetVersion"})};
  return opened;
}

}  // namespace penstock::cuda
