// Files whose reads are best sent together, because each answer takes long.
#pragma once

#include <span>

#include <penstock/file_system.h>

namespace penstock {

class TogetherFile : public File {
 public:
  struct Reads {
    TogetherFile* file = nullptr;
    std::span<ReadRequest> requests;
  };

  /// Returns the same value for all files that can be read together.
  virtual const void* reader() const noexcept = 0;
  /// Reads as `read` of each file does, all at once. REQUIRES: all files have the same `reader()`.
  virtual void read_together(std::span<Reads> all) = 0;
};

}  // namespace penstock
