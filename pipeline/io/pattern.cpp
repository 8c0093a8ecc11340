#include "pipeline/io/pattern.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fnmatch.h>

namespace penstock {
namespace {

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t slash = path.find('/');
    parts.emplace_back(path.substr(0, slash));
    if (slash == path.npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

bool has_pattern(std::string_view path) noexcept {
  return path.find_first_of("*?[") != std::string_view::npos;
}

bool matches(const std::string& pattern, const std::string& path, bool hidden) {
  const int flags = FNM_PATHNAME | FNM_NOESCAPE | (hidden ? 0 : FNM_PERIOD);
  if (pattern.find(kAnyFolders) == pattern.npos)
    return ::fnmatch(pattern.c_str(), path.c_str(), flags) == 0;
  std::vector<std::string> wanted = parts_of(pattern);
  if (wanted.back() == kAnyFolders) wanted.emplace_back("*");
  const std::vector<std::string> parts = parts_of(path);
  // Only the last ** needs to try more folders: what the others could take in addition, it takes.
  std::size_t after = 0;  // of the last **, in `wanted`; 0: there was none
  std::size_t first = 0;  // of the parts behind its folders
  std::size_t i = 0;
  for (std::size_t k = 0; k < parts.size();) {
    if (i < wanted.size() && wanted[i] == kAnyFolders) {
      after = ++i;
      first = k;
    } else if (i < wanted.size() && ::fnmatch(wanted[i].c_str(), parts[k].c_str(), flags) == 0) {
      ++i;
      ++k;
    } else {
      if (after == 0 || (!hidden && parts[first].starts_with('.'))) return false;
      i = after;
      k = ++first;
    }
  }
  return i == wanted.size();
}

}  // namespace penstock
