// Files in memory, named by number.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipeline/io/memory.h"

namespace penstock::test {

inline std::shared_ptr<MemoryFileSystem> memory_files(const std::vector<std::string>& contents) {
  auto files = std::make_shared<MemoryFileSystem>();
  for (std::size_t i = 0; i < contents.size(); ++i) files->add(std::to_string(i), contents[i]);
  return files;
}

}  // namespace penstock::test
