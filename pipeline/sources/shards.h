// The files of a source: found at the start, opened when needed, checked for changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/description.h>
#include <penstock/file_system.h>
#include <penstock/internal/thread_annotations.h>

#include "pipeline/io/posix.h"

namespace penstock {

/// An open shard. `mapping` keeps `file` alive for tensors that view `file->mapped()`. It is null
/// if the file is not mapped.
struct OpenShard {
  std::shared_ptr<File> file;
  BufferPtr mapping;
};

struct ListedFiles;

/// The files of a source, in their order. Keeps up to a quarter of RLIMIT_NOFILE open, fewer if the
/// system refuses, and closes the one that was unused for longest. Thread-safe.
class Shards {
 public:
  /// Expands each pattern. Throws one Error{not_found} that lists the patterns without a match and
  /// the missing files. `files` null: default_file_system(). `hidden`: see FileSystem::glob.
  Shards(FileSystemPtr files, const std::vector<std::string>& patterns, std::size_t max_open = 0,
         bool hidden = false);

  std::size_t size() const noexcept { return shards_.size(); }
  const std::string& path(std::size_t shard) const noexcept { return shards_[shard].path; }
  /// Returns the file's facts as they were found at the start.
  const FileInfo& info(std::size_t shard) const noexcept { return shards_[shard].info; }
  /// Adds each shard: its name, size, and `checksum` of its index (null: there is none), mixed with
  /// the version if a server reports one. Adds the contents too if they are wanted.
  void describe(Description& description,
                const std::function<std::uint64_t(std::size_t)>& checksum = nullptr) const;
  /// Returns a hash of the contents of each shard (see hash_contents), made at the first call.
  const std::vector<std::uint64_t>& contents() const;

  /// Opens a shard, or returns it if it is open. Throws as FileSystem::open does, and
  /// Error{data_loss} if the file is no longer the one found at the start.
  OpenShard open(std::size_t shard) const EXCLUDES(mutex_);
  /// Throws Error{data_loss} if the shard, which `file` reads, is no longer the one found at the
  /// start. Call it after the last use of bytes that were read, and before their results are used.
  void check(std::size_t shard, const File& file, bool trust_data) const;
  FileSystem& files() const noexcept { return *files_; }

 private:
  ListedFiles listed() const;

  struct Shard {
    std::string path;
    FileInfo info;
  };

  /// Closes shards and keeps fewer open from now on. Returns false if none is open.
  bool keep_fewer_open() const EXCLUDES(mutex_);
  /// Takes the shard that was used least lately out of those that are open. The caller closes it
  /// without the mutex.
  OpenShard take_oldest() const REQUIRES(mutex_);

  // Constant after construction.
  FileSystemPtr files_;
  std::vector<Shard> shards_;

  mutable std::once_flag contents_once_;
  mutable std::vector<std::uint64_t> contents_;  // constant once it was made

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
