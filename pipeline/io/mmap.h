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

/// The path of the file that is mapped at `address`, or null: for a handler of SIGBUS. Valid while
/// whoever touched the address waits. Async-signal-safe. Knows the first 4,096 files that are
/// mapped at a time.
const char* mapped_file_at(const void* address) noexcept;

}  // namespace penstock
