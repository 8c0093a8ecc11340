// Files that live in memory, for tests and for programs that hold their data already.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <penstock/file_system.h>
#include <penstock/internal/thread_annotations.h>

namespace penstock {

/// A file system in memory. A name's folders are the parts in front of each '/'. Thread-safe.
/// Holders of an open file keep its contents when it is replaced or removed.
///
///     MemoryFileSystem files;
///     files.add("train/a.txt", "hello");
///     files.glob("train/*");   // {"train/a.txt"}
class MemoryFileSystem final : public FileSystem {
 public:
  /// Adds or replaces a file. Every call gives the file a new inode and time.
  void add(const std::string& path, std::string contents) EXCLUDES(mutex_);
  void remove(const std::string& path) override EXCLUDES(mutex_);

  std::string name() const override { return "memory"; }
  std::shared_ptr<File> open(const std::string& path) override EXCLUDES(mutex_);
  FileInfo info(const std::string& path) override EXCLUDES(mutex_);
  bool is_directory(const std::string& path) override EXCLUDES(mutex_);
  std::vector<std::string> list(const std::string& folder) override EXCLUDES(mutex_);
  std::vector<std::string> glob(const std::string& pattern, bool hidden = false) override
      EXCLUDES(mutex_);

 private:
  class MemoryFile;

  Mutex mutex_;
  std::map<std::string, std::shared_ptr<MemoryFile>> files_ GUARDED_BY(mutex_);
  std::uint64_t next_inode_ GUARDED_BY(mutex_) = 1;
};

}  // namespace penstock
