// A file system whose reads take long, like those of an object store.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <penstock/file_system.h>

namespace penstock::bench {

/// Delays the reads of another file system. Each read first waits for `latency`, whatever its size.
/// Any number of threads may wait at once, but the reads of one call wait one after the other.
/// Opening, listing and asking for sizes are not delayed. Thread-safe.
class SlowFiles final : public FileSystem {
 public:
  SlowFiles(FileSystemPtr inner, std::chrono::microseconds latency)
      : inner_(std::move(inner)), latency_(latency) {}

  std::string name() const override { return inner_->name(); }
  std::shared_ptr<File> open(const std::string& path) override;
  std::optional<FileInfo> read_whole(const std::string& path, const FileInfo& expected,
                                     std::byte* out) override;
  FileInfo info(const std::string& path) override { return inner_->info(path); }
  bool is_directory(const std::string& path) override { return inner_->is_directory(path); }
  std::vector<std::string> list(const std::string& folder) override { return inner_->list(folder); }
  std::vector<std::string> glob(const std::string& pattern, bool hidden) override {
    return inner_->glob(pattern, hidden);
  }

 private:
  const FileSystemPtr inner_;
  const std::chrono::microseconds latency_;
};

}  // namespace penstock::bench
