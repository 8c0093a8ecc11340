// A file system with a hook for each read.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/file_system.h>

namespace penstock::test {

/// Adds a hook to any file system. The reading thread calls the hook for each read, with the path
/// and the request. If the hook returns an error, the read fails with it. Maps no files, and says
/// that its reads block.
class HookedFiles final : public FileSystem {
 public:
  using Hook = std::function<Status(const std::string& path, const ReadRequest& request)>;

  HookedFiles(FileSystemPtr inner, Hook hook)
      : inner_(std::move(inner)), hook_(std::make_shared<const Hook>(std::move(hook))) {}

  std::string name() const override { return inner_->name(); }
  std::shared_ptr<File> open(const std::string& path) override {
    return std::make_shared<HookedFile>(inner_->open(path), hook_);
  }
  FileInfo info(const std::string& path) override { return inner_->info(path); }
  bool is_directory(const std::string& path) override { return inner_->is_directory(path); }
  std::vector<std::string> list(const std::string& folder) override { return inner_->list(folder); }
  std::vector<std::string> glob(const std::string& pattern, bool hidden) override {
    return inner_->glob(pattern, hidden);
  }

 private:
  class HookedFile final : public File {
   public:
    HookedFile(std::shared_ptr<File> inner, std::shared_ptr<const Hook> hook)
        : inner_(std::move(inner)), hook_(std::move(hook)) {}

    const FileInfo& info() const noexcept override { return inner_->info(); }
    std::optional<FileInfo> now() const noexcept override { return inner_->now(); }
    const std::string& path() const noexcept override { return inner_->path(); }
    void read(std::span<ReadRequest> requests) override {
      for (ReadRequest& request : requests) {
        request.status = (*hook_)(path(), request);
        if (request.status.ok()) inner_->read({&request, 1});
      }
    }

   private:
    const std::shared_ptr<File> inner_;
    const std::shared_ptr<const Hook> hook_;
  };

  const FileSystemPtr inner_;
  const std::shared_ptr<const Hook> hook_;
};

}  // namespace penstock::test
