#include <penstock/internal/module.h>

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <vector>

#include <penstock/error.h>

namespace penstock {

void* module_symbol(const char* file, const char* symbol,
                    const std::function<bool(void*)>& accept) {
  std::vector<std::string> paths;
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  if (!ignored) {
    for (const char* folder : {".", "../lib", "../lib64", "../lib/x86_64-linux-gnu"})
      paths.push_back(program / folder / file);
  }
  paths.emplace_back(file);
  std::string why;
  for (const std::string& path : paths) {
    if (path != file && !std::filesystem::exists(path, ignored)) continue;
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) {
      const char* said = dlerror();
      if (why.empty() && said != nullptr) why = said;
      continue;
    }
    void* found = dlsym(module, symbol);
    if (found != nullptr && accept(found)) return found;
    why = path + " is not of this version";
  }
  throw Error(ErrorCode::not_found, "the module can't be opened: " + why);
}

}  // namespace penstock
