#include "tools/penstock/run/rooted_files.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include <penstock/remote_files.h>

namespace penstock::tool {
namespace {

class RootedFiles final : public FileSystem {
 public:
  RootedFiles(FileSystemPtr files, std::string root)
      : files_(std::move(files)), root_(std::move(root)) {}

  std::string name() const override { return files_->name(); }
  std::shared_ptr<File> open(const std::string& path) override {
    return files_->open(checked(path));
  }
  std::optional<FileInfo> read_whole(const std::string& path, const FileInfo& expected,
                                     std::byte* out) override {
    return files_->read_whole(checked(path), expected, out);
  }
  FileInfo info(const std::string& path) override { return files_->info(checked(path)); }
  bool is_directory(const std::string& path) override {
    return files_->is_directory(checked(path));
  }
  std::vector<std::string> list(const std::string& folder) override {
    return all_checked(files_->list(checked(folder)));
  }
  std::vector<std::string> glob(const std::string& pattern, bool hidden) override {
    checked(pattern.substr(0, pattern.find_first_of("*?[")));
    return all_checked(files_->glob(pattern, hidden));
  }

 private:
  // Follows the links of the existing part of the path. The rest can't be opened anyway.
  const std::string& checked(const std::string& path) const {
    // Clients must not reach servers through this machine.
    if (is_remote(path))
      throw Error(ErrorCode::not_found, "it lies on a server, outside of the folder that is served",
                  {.shard = path});
    std::error_code error;
    const std::string real = std::filesystem::weakly_canonical(path, error).string();
    const bool within = !error && real.starts_with(root_) &&
                        (real.size() == root_.size() || root_ == "/" || real[root_.size()] == '/');
    if (!within)
      throw Error(ErrorCode::not_found, "it lies outside of the folder that is served",
                  {.shard = path});
    return path;
  }
  std::vector<std::string> all_checked(std::vector<std::string> paths) const {
    for (const std::string& path : paths) checked(path);
    return paths;
  }

  const FileSystemPtr files_;
  const std::string root_;
};

}  // namespace

FileSystemPtr files_within(FileSystemPtr files, const std::string& folder) {
  std::error_code error;
  const std::string root = std::filesystem::canonical(folder, error).string();
  if (error || !std::filesystem::is_directory(root, error))
    throw Error(ErrorCode::not_found, "there is no such folder", {.shard = folder});
  return std::make_shared<RootedFiles>(std::move(files), root);
}

}  // namespace penstock::tool
