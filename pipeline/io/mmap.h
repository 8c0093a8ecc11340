// Memory-mapped files: only when asked for.
#pragma once

#include "pipeline/io/pread.h"

namespace penstock {

/// Records are views of the mapping, so that nothing is copied; files that are wanted whole are
/// read. A mapping holds no descriptor: its path is asked whether it has changed, and from then on
/// every read is an error. The price: a file that is cut, or fails to be read, between that look
/// and the use of its pages kills the process with SIGBUS.
class MmapFileSystem final : public PreadFileSystem {
 public:
  std::string name() const override { return "mmap"; }
  std::shared_ptr<File> open(const std::string& path) override;
};

}  // namespace penstock
