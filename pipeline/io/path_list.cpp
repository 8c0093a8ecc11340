#include "pipeline/io/path_list.h"

#include <algorithm>
#include <cstring>

namespace penstock {

namespace {

constexpr std::size_t kBlockBytes = 1 << 20;

}  // namespace

void PathList::add(std::string_view path) {
  if (path.size() >= left_) {
    left_ = std::max(kBlockBytes, path.size() + 1);
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(left_));
    next_ = blocks_.back().get();
  }
  char* const text = next_;
  std::memcpy(text, path.data(), path.size());
  text[path.size()] = '\0';
  next_ += path.size() + 1;
  left_ -= path.size() + 1;
  paths_.push_back(text);
}

void PathList::sort() {
  std::sort(paths_.begin(), paths_.end(),
            [](const char* a, const char* b) { return std::strcmp(a, b) < 0; });
  const auto same = [](const char* a, const char* b) { return std::strcmp(a, b) == 0; };
  paths_.erase(std::unique(paths_.begin(), paths_.end(), same), paths_.end());
}

}  // namespace penstock
