// The files of a source: found at the start, opened when needed, checked for changes.
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

/// An open shard. `mapping` keeps `file` alive for tensors that view `file->mapped()`. It is null
/// if the file is not mapped.
struct OpenShard {
  std::shared_ptr<File> file;
  BufferPtr mapping;
};

/// The files of a source, in their order. Keeps up to a quarter of RLIMIT_NOFILE open, fewer if the
/// system refuses, and closes the one that was unused for longest. Thread-safe.
class Shards {
 public:
  /// Expands each pattern. Throws one Error{not_found} that lists the patterns without a match and
  /// the missing files. `files` null: default_file_system().
  Shards(FileSystemPtr files, const std::vector<std::string>& patterns, std::size_t max_open = 0);

  std::size_t size() const noexcept { return shards_.size(); }
  const std::string& path(std::size_t shard) const noexcept { return shards_[shard].path; }
  /// Returns the file's facts as they were found at the start.
  const FileInfo& info(std::size_t shard) const noexcept { return shards_[shard].info; }
  /// Returns a number that differs if the shard's contents differ, for fingerprints. It mixes
  /// `checksum` with the version, if a server reports one.
  std::uint64_t identity(std::size_t shard, std::uint64_t checksum = 0) const noexcept;

  /// Opens a shard, or returns it if it is open. Throws as FileSystem::open does, and
  /// Error{data_loss} if the file is no longer the one found at the start.
  OpenShard open(std::size_t shard) const EXCLUDES(mutex_);
  FileSystem& files() const noexcept { return *files_; }

 private:
  struct Shard {
    std::string path;
    FileInfo info;
  };

  /// Closes shards and keeps fewer open from now on. Returns false if none is open.
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

/// Returns the last part of a path. The query of a URL is not part of it.
std::string base_name(const std::string& path);
/// Returns the error that says why a file can't be one of these shards.
Error refused(const std::string& path, const std::string& what);

}  // namespace penstock
