#include "pipeline/io/mmap.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <sys/mman.h>
#include <sys/stat.h>

#include <penstock/log.h>

#include "pipeline/io/fs_support.h"

namespace penstock {
namespace {

/// A mapping as a signal handler sees it. A place is taken while `path` is set, and valid while
/// `begin` is set.
struct Place {
  std::atomic<const char*> path{nullptr};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> size{0};
};
std::array<Place, 4096> places;

/// Returns null if all places are taken.
Place* take_place(std::span<const std::byte> map, const char* path) noexcept {
  for (Place& place : places) {
    const char* nobody = nullptr;
    if (place.path.load(std::memory_order_relaxed) != nullptr ||
        !place.path.compare_exchange_strong(nobody, path)) {
      continue;
    }
    place.size = map.size();
    place.begin = reinterpret_cast<std::uintptr_t>(map.data());
    return &place;
  }
  return nullptr;
}

class MmapFile final : public File {
 public:
  /// Maps the whole file. Check `error` behind it.
  MmapFile(const std::string& path, FileRootPtr root) : path_(path), root_(std::move(root)) {
    const OpenedFile opened = open_regular(path, *root_);
    info_ = opened.info;
    if (info_.size == 0) return;  // mmap rejects an empty mapping
    void* const start = ::mmap(nullptr, info_.size, PROT_READ, MAP_SHARED, opened.fd.get(), 0);
    if (start == MAP_FAILED) {
      error_ = errno;
      return;
    }
    map_ = {static_cast<const std::byte*>(start), info_.size};
    place_ = take_place(map_, path_.c_str());
  }
  /// Returns the errno of mmap(2), 0 if the file is mapped.
  int error() const noexcept { return error_; }
  MmapFile(const MmapFile&) = delete;
  MmapFile& operator=(const MmapFile&) = delete;
  ~MmapFile() override {
    if (place_ != nullptr) {
      place_->begin = 0;
      place_->path = nullptr;
    }
    if (!map_.empty()) ::munmap(const_cast<std::byte*>(map_.data()), map_.size());
  }

  const FileInfo& info() const noexcept override { return info_; }
  std::optional<FileInfo> now() const noexcept override { return info_of_path(path_, *root_); }
  const std::string& path() const noexcept override { return path_; }

  void read(std::span<ReadRequest> requests) override {
    const bool whole = unchanged();  // truncated pages must not be touched
    for (ReadRequest& request : requests) {
      if (!whole) {
        request.status = changed_error(path_);
      } else if (request.offset > map_.size() || request.size > map_.size() - request.offset) {
        request.status = past_end_error(path_, map_.size(), request);
      } else {
        if (request.size > 0) {
          std::memcpy(request.out, map_.data() + request.offset, request.size);
        }
        request.status = {};
      }
    }
  }

  void read_uncached(std::span<ReadRequest> requests) override try {
    PosixFile file(path_, {}, *root_);
    if (file.info() != info_) throw changed_error(path_);
    file.read_uncached(requests);
  } catch (...) {
    const Status status = status_from_current_exception();
    for (ReadRequest& request : requests) request.status = status;
  }

  std::span<const std::byte> mapped() const noexcept override { return map_; }

 private:
  const std::string path_;
  const FileRootPtr root_;
  FileInfo info_;
  int error_ = 0;
  std::span<const std::byte> map_;
  Place* place_ = nullptr;
};

}  // namespace

std::shared_ptr<File> MmapFileSystem::open(const std::string& path) {
  auto file = std::make_shared<MmapFile>(path, shared_root());
  if (file->error() == 0) return file;
  if (!is_unsupported(FsCall::map, file->error()))
    throw error_from_errno(file->error(), "map", path);
  log_once(LogLevel::warning, "mmap",
           path + ": the file system can't map files (" +
               std::generic_category().message(file->error()) + "), so they are read instead");
  return std::make_shared<PosixFile>(path, PreadFn(), root());
}

const char* mapped_file_at(const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const Place& place : places) {
    const std::uintptr_t begin = place.begin;
    if (begin == 0 || at < begin || at - begin >= place.size) continue;
    const char* const path = place.path;
    // While pages of a mapping are in use, it stays. Others may come and go meanwhile.
    if (place.begin == begin) return path;
  }
  return nullptr;
}

}  // namespace penstock
