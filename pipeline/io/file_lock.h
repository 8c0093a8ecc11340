// A lock on a file for one process at a time.
#pragma once

#include <chrono>
#include <string>

#include <penstock/durable_file.h>

#include "pipeline/io/posix.h"

namespace penstock {

/// A lock held through `path`.lock, an empty file that is never removed. `path` itself would not
/// do: a rename gives it another inode, and so another lock. The lock is free when its process
/// ends, in whatever way. If the file system has no locks, nothing is locked, see `try_lock`.
class FileLock {
 public:
  /// Waits up to `patience` for another holder to end. Throws Error{unavailable} that names `path`
  /// and the process that holds the lock. Throws Error{unavailable | resource_exhausted |
  /// not_found} if the lock file can't be made or is not a regular file. The lock file is never
  /// written to.
  explicit FileLock(const std::string& path, std::chrono::milliseconds patience = {});

 private:
  UniqueFd fd_;
};

}  // namespace penstock
