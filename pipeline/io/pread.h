// Files through plain pread(2): the fastest way to read bytes that the page cache holds.
#pragma once

#include "pipeline/io/posix.h"
#include "pipeline/io/posix_files.h"

namespace penstock {

class PreadFileSystem : public PosixFileSystem {
 public:
  /// Opens files by the system's pread, or by `pread`, which replaces it in tests.
  explicit PreadFileSystem(PreadFn pread = {}) : pread_(std::move(pread)) {}
  explicit PreadFileSystem(FileRootPtr root) : PosixFileSystem(std::move(root)) {}

  std::string name() const override { return "pread"; }
  std::shared_ptr<File> open(const std::string& path) override;
  std::optional<FileInfo> read_whole(const std::string& path, const FileInfo& expected,
                                     std::byte* out) override;

 private:
  PreadFn pread_;
};

}  // namespace penstock
