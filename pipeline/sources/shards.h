// The files of a source: found at the start, opened when needed, watched for changes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/file_system.h>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/io/posix.h"

namespace penstock {

/// A shard that is open. `mapping` keeps `file` for tensors that view `file->mapped()`; null if the
/// file is not mapped.
struct OpenShard {
  std::shared_ptr<File> file;
  BufferPtr mapping;
};

/// The files of a source in their order. Keeps as many open as the process may well have (a quarter
/// of RLIMIT_NOFILE, fewer if the system says so) and closes the one unused for longest.
/// Thread-safe.
class Shards {
 public:
  /// Expands each pattern. Throws one Error{not_found} that lists every pattern without a match and
  /// every file that is missing. `files` null: default_file_system().
  Shards(FileSystemPtr files, const std::vector<std::string>& patterns, std::size_t max_open = 0);

  std::size_t size() const noexcept { return shards_.size(); }
  const std::string& path(std::size_t shard) const noexcept { return shards_[shard].path; }
  /// As found at the start.
  const FileInfo& info(std::size_t shard) const noexcept { return shards_[shard].info; }

  /// Throws what FileSystem::open throws, and Error{data_loss} if the file is no longer the one
  /// found at the start.
  OpenShard open(std::size_t shard) const EXCLUDES(mutex_);
  FileSystem& files() const noexcept { return *files_; }

 private:
  struct Shard {
    std::string path;
    FileInfo info;
  };

  /// False if none is open.
  bool keep_fewer_open() const EXCLUDES(mutex_);
  void close_oldest() const REQUIRES(mutex_);

  // Constant after construction.
  FileSystemPtr files_;
  std::vector<Shard> shards_;

  mutable Mutex mutex_;
  mutable std::size_t max_open_ GUARDED_BY(mutex_);
  mutable std::size_t open_count_ GUARDED_BY(mutex_) = 0;
  mutable std::uint64_t uses_ GUARDED_BY(mutex_) = 0;
  mutable std::vector<OpenShard> open_ GUARDED_BY(mutex_);
  mutable std::vector<std::uint64_t> last_use_ GUARDED_BY(mutex_);
};

/// The last part of a path.
std::string base_name(const std::string& path);
/// Why a file can't be one of these shards.
Error refused(const std::string& path, const std::string& what);

}  // namespace penstock
