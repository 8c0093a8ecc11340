#include "pipeline/io/pread.h"

namespace penstock {

std::shared_ptr<File> PreadFileSystem::open(const std::string& path) {
  return std::make_shared<PosixFile>(path, pread_);
}

}  // namespace penstock
