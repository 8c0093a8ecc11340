// A file's lock for one process at a time.
#pragma once

#include <chrono>
#include <string>

#include <penstock/durable_file.h>

#include "pipeline/io/posix.h"

namespace penstock {

/// Holds `path`.lock, an empty file that is never removed: a rename gives `path` another inode, and
/// so another lock. It is free when its process ends, however that ends. Where the file system has
/// no locks the log says so, once.
class FileLock {
 public:
  /// Waits so long for another holder to end. Throws Error{unavailable} naming `path` and the
  /// process that holds it, and Error{unavailable | resource_exhausted | not_found} if the lock
  /// can't be made, or if what has its name is no regular file. It is never written to.
  explicit FileLock(const std::string& path, std::chrono::milliseconds patience = {});

 private:
  UniqueFd fd_;
};

}  // namespace penstock
