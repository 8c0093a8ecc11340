#include "pipeline/io/pattern.h"

#include <fnmatch.h>

namespace penstock {

bool has_pattern(std::string_view path) noexcept {
  return path.find_first_of("*?[") != std::string_view::npos;
}

bool matches(const std::string& pattern, const std::string& path, bool hidden) {
  const int flags = FNM_PATHNAME | FNM_NOESCAPE | (hidden ? 0 : FNM_PERIOD);
  return ::fnmatch(pattern.c_str(), path.c_str(), flags) == 0;
}

}  // namespace penstock
