// Finds programs of other projects, which not every machine has.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>

#include <unistd.h>

namespace penstock::test {

/// Returns the value of the environment's `variable`, else the path of `name` in $PATH; empty if it
/// is not found.
inline std::string find_program(const std::string& name, const char* variable) {
  if (const char* const named = std::getenv(variable); named != nullptr) return named;
  const char* const path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string file = rest.substr(0, end) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
    rest.erase(0, std::min(end + 1, rest.size()));
  }
  return {};
}

}  // namespace penstock::test
