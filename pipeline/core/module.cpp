#include <penstock/internal/module.h>

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <penstock/error.h>

namespace penstock {
namespace {

/// Returns the folders where `module_symbol` looks, without repetitions.
std::vector<std::filesystem::path> module_folders() {
  std::vector<std::filesystem::path> folders;
  const auto add = [&](const std::filesystem::path& folder) {
    const auto plain = folder.lexically_normal();
    if (std::ranges::find(folders, plain) == folders.end()) folders.push_back(plain);
  };
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  if (!ignored) {
    for (const char* folder : {"", "../lib", "../lib64", "../lib/x86_64-linux-gnu"})
      add(program / folder / "");
  }
  // The shared object that this code is in: the library, where it is not static.
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&module_symbol), &self) != 0 && self.dli_fname != nullptr) {
    const std::filesystem::path file = self.dli_fname;
    if (file.is_absolute()) add(file.parent_path() / "");
  }
  return folders;
}

}  // namespace

void* module_symbol(const char* file, const char* symbol,
                    const std::function<bool(void*)>& accept) {
  std::string searched, why;
  const auto open = [&](const std::string& path) -> void* {
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) {
      const char* said = dlerror();
      if (why.empty() && said != nullptr) why = said;
      return nullptr;
    }
    void* found = dlsym(module, symbol);
    if (found != nullptr && accept(found)) return found;
    why = path + " is not of this version";
    return nullptr;
  };
  const auto open_in = [&](const std::filesystem::path& folder) -> void* {
    searched += (searched.empty() ? "" : ", ") + folder.string();
    const std::filesystem::path path = folder / file;
    std::error_code ignored;
    return std::filesystem::exists(path, ignored) ? open(path) : nullptr;
  };
  for (const std::filesystem::path& folder : module_folders())
    if (void* found = open_in(folder)) return found;
  if (void* found = open(file)) return found;  // the linker's folders: RPATH, LD_LIBRARY_PATH
#ifdef PENSTOCK_MODULE_FOLDER
  if (void* found = open_in(PENSTOCK_MODULE_FOLDER)) return found;
#endif
  throw Error(ErrorCode::not_found, "the module " + std::string(file) + " can't be opened: " + why +
                                        "; searched " + searched + " and where the linker looks");
}

}  // namespace penstock
