// The entry of libFuzzer: `fuzz TARGET [CORPUS…] [-flags]`; `fuzz --list` names the targets, and
// `fuzz TARGET --seeds FOLDER` writes what to start from. Source:
// https://llvm.org/docs/LibFuzzer.html
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/fuzz/targets.h"

namespace {

const penstock::fuzz::Target* chosen = nullptr;

[[noreturn]] void list() {
  for (const auto& target : penstock::fuzz::targets()) std::puts(target.name);
  std::exit(0);
}

[[noreturn]] void write_seeds(const std::string& folder) {
  std::size_t number = 0;
  for (const std::string& seed : chosen->seeds()) {
    std::ofstream file(folder + "/seed-" + std::to_string(number++), std::ios::binary);
    file.write(seed.data(), static_cast<std::streamsize>(seed.size()));
    if (!file.flush()) std::exit(1);
  }
  std::exit(0);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string name = *argc > 1 ? (*argv)[1] : "";
  if (name == "--list") list();
  for (const auto& target : penstock::fuzz::targets()) {
    if (name == target.name) chosen = &target;
  }
  if (chosen == nullptr) {
    std::fprintf(stderr, "usage: %s TARGET [CORPUS...] [-flags], or --list\n", (*argv)[0]);
    std::exit(2);
  }
  if (*argc > 3 && std::strcmp((*argv)[2], "--seeds") == 0) write_seeds((*argv)[3]);
  std::rotate(*argv + 1, *argv + 2, *argv + *argc);
  --*argc;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
