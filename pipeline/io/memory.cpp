#include "pipeline/io/memory.h"

#include <atomic>
#include <cstring>

#include "pipeline/io/pattern.h"
#include "pipeline/io/posix.h"

namespace penstock {
namespace {

std::string as_folder(const std::string& path) {
  return path.empty() || path.back() == '/' ? path : path + '/';
}

Error missing(const std::string& path) {
  return Error(ErrorCode::not_found, "no such file in memory", {.shard = path});
}

}  // namespace

class MemoryFileSystem::MemoryFile final : public File {
 public:
  MemoryFile(std::string path, std::string contents, std::uint64_t inode)
      : path_(std::move(path)),
        contents_(std::move(contents)),
        info_{contents_.size(), static_cast<std::int64_t>(inode), inode} {}

  const FileInfo& info() const noexcept override { return info_; }
  std::optional<FileInfo> now() const noexcept override {
    return replaced_ ? std::nullopt : std::optional(info_);
  }
  void replace() noexcept { replaced_ = true; }
  const std::string& path() const noexcept override { return path_; }
  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) {
      if (request.offset > info_.size || request.size > info_.size - request.offset) {
        request.status = past_end_error(path_, info_.size, request);
      } else if (request.size > 0) {
        std::memcpy(request.out, contents_.data() + request.offset, request.size);
      }
    }
  }
  bool blocking() const noexcept override { return false; }
  std::span<const std::byte> mapped() const noexcept override {
    return std::as_bytes(std::span(contents_));
  }

 private:
  const std::string path_;
  const std::string contents_;
  const FileInfo info_;
  std::atomic<bool> replaced_{false};
};

void MemoryFileSystem::add(const std::string& path, std::string contents) {
  MutexLock lock(mutex_);
  std::shared_ptr<MemoryFile>& file = files_[path];
  if (file != nullptr) file->replace();
  file = std::make_shared<MemoryFile>(path, std::move(contents), next_inode_++);
}

void MemoryFileSystem::remove(const std::string& path) {
  MutexLock lock(mutex_);
  const auto found = files_.find(path);
  if (found == files_.end()) return;
  found->second->replace();
  files_.erase(found);
}

std::shared_ptr<File> MemoryFileSystem::open(const std::string& path) {
  MutexLock lock(mutex_);
  const auto found = files_.find(path);
  if (found == files_.end()) throw missing(path);
  return found->second;
}

FileInfo MemoryFileSystem::info(const std::string& path) {
  return open(path)->info();
}

bool MemoryFileSystem::is_directory(const std::string& path) {
  const std::string folder = as_folder(path);
  MutexLock lock(mutex_);
  const auto found = files_.lower_bound(folder);
  return found != files_.end() && found->first.starts_with(folder);
}

std::vector<std::string> MemoryFileSystem::list(const std::string& folder) {
  if (!is_directory(folder)) throw missing(folder);
  const std::string prefix = as_folder(folder);
  std::vector<std::string> found;
  MutexLock lock(mutex_);
  for (auto i = files_.lower_bound(prefix); i != files_.end() && i->first.starts_with(prefix); ++i)
    found.push_back(i->first);
  return found;
}

std::vector<std::string> MemoryFileSystem::glob(const std::string& pattern, bool hidden) {
  if (!has_pattern(pattern)) return {pattern};
  std::vector<std::string> found;
  MutexLock lock(mutex_);
  for (const auto& [path, file] : files_) {
    if (matches(pattern, path, hidden)) found.push_back(path);
  }
  return found;
}

}  // namespace penstock
