#include "pipeline/io/mmap.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>

namespace penstock {
namespace {

class MmapFile final : public PosixFile {
 public:
  explicit MmapFile(const std::string& path) : PosixFile(path) {
    if (info().size == 0) return;  // an empty mapping is an error to mmap
    void* const start = ::mmap(nullptr, info().size, PROT_READ, MAP_SHARED, fd(), 0);
    if (start == MAP_FAILED) throw error_from_errno(errno, "map", path);
    map_ = {static_cast<const std::byte*>(start), info().size};
  }
  ~MmapFile() override {
    if (!map_.empty()) ::munmap(const_cast<std::byte*>(map_.data()), map_.size());
  }

  void read(std::span<ReadRequest> requests) override {
    for (ReadRequest& request : requests) {
      if (request.offset > map_.size() || request.size > map_.size() - request.offset) {
        request.status = past_end_error(path(), map_.size(), request);
      } else if (request.size > 0) {
        std::memcpy(request.out, map_.data() + request.offset, request.size);
      }
    }
  }
  std::span<const std::byte> mapped() const noexcept override { return map_; }

 private:
  std::span<const std::byte> map_;
};

}  // namespace

std::shared_ptr<File> MmapFileSystem::open(const std::string& path) {
  return std::make_shared<MmapFile>(path);
}

}  // namespace penstock
