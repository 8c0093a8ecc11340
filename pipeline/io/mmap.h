// Memory-mapped files: only when asked for.
#pragma once

#include "pipeline/io/posix.h"

namespace penstock {

/// Records are views of the mapping, so that nothing is copied. The price: a file that is truncated
/// or fails to read while it is mapped kills the process with SIGBUS.
class MmapFileSystem final : public PosixFileSystem {
 public:
  std::string name() const override { return "mmap"; }
  std::shared_ptr<File> open(const std::string& path) override;
};

}  // namespace penstock
