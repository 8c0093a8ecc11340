// Memory-mapped files, used only on request.
#pragma once

#include "pipeline/io/pread.h"

namespace penstock {

/// A file system that maps files. Records are views of the mapping, so nothing is copied. Files
/// that are wanted whole are read instead, and so are files that the system can't map, with one
/// warning.
///
/// A mapping holds no descriptor. It looks up its path to see whether the file has changed; once it
/// has, every read is an error. The price: if a file is truncated or fails to be read between that
/// look and the use of its pages, SIGBUS kills the process.
class MmapFileSystem final : public PreadFileSystem {
 public:
  using PreadFileSystem::PreadFileSystem;

  std::string name() const override { return "mmap"; }
  std::shared_ptr<File> open(const std::string& path) override;
};

}  // namespace penstock
