// A file system on POSIX: listings, patterns, and files that are written.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/file_system.h>

#include "pipeline/io/file_root.h"

namespace penstock {

/// The functions of a file system on POSIX, except `open`.
class PosixFileSystem : public FileSystem {
 public:
  explicit PosixFileSystem(FileRootPtr root = system_root()) : root_(std::move(root)) {}

  FileInfo info(const std::string& path) override;
  bool is_directory(const std::string& path) override;
  /// Follows symbolic links, except to a folder that contains them. Throws Error{out_of_range} if
  /// links lead to one folder in more than `kMostWays` ways.
  std::vector<std::string> list(const std::string& folder) override;
  void list_each(const std::string& folder, const Found& found) override;
  std::vector<std::string> glob(const std::string& pattern, bool hidden = false) override;
  void glob_each(const std::string& pattern, bool hidden, const Found& found) override;
  std::unique_ptr<WritableFile> create(const std::string& path) override;
  void remove(const std::string& path) override;

 protected:
  const FileRoot& root() const noexcept { return *root_; }
  const FileRootPtr& shared_root() const noexcept { return root_; }

 private:
  FileRootPtr root_;
};

/// Works like `make_file_system`, for files that `root` leads to, and knows no servers.
FileSystemPtr make_local_file_system(const std::string& name, FileRootPtr root);

}  // namespace penstock
