#include "pipeline/remote/shared_memory.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "pipeline/remote/messages.h"

namespace penstock {

/// A buffer that returns its range.
class SharedMemory::Part final : public Buffer {
 public:
  Part(std::shared_ptr<SharedMemory> of, Range range) : of_(std::move(of)), range_(range) {
    data_ = of_->data_ + range.begin;
    size_ = range.end - range.begin;
  }

 private:
  void dispose() noexcept override {
    of_->give(range_);
    delete this;
  }

  const std::shared_ptr<SharedMemory> of_;
  const Range range_;
};

std::shared_ptr<SharedMemory> SharedMemory::make(std::size_t bytes) {
  rlimit limit{};
  // Growing a file beyond this limit is a signal, and not only an error.
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < bytes) return nullptr;
  UniqueFd fd(::memfd_create("penstock", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return nullptr;
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return nullptr;
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return nullptr;
  ::madvise(data, bytes, MADV_HUGEPAGE);  // where the system lets files have them
  // A core file of a worker needs no elements.
  ::madvise(data, bytes, MADV_DONTDUMP);
  // Kernels before 5.1 do not have this seal; the other process maps the file to read it anyway.
  ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  try {
    return std::shared_ptr<SharedMemory>(
        new SharedMemory(std::move(fd), static_cast<std::byte*>(data), bytes));
  } catch (...) {
    ::munmap(data, bytes);
    throw;
  }
}

SharedMemory::SharedMemory(UniqueFd fd, std::byte* data, std::size_t size)
    : fd_(std::move(fd)), data_(data), size_(size), free_{{0, size}} {}

SharedMemory::~SharedMemory() {
  ::munmap(data_, size_);
}

// The lowest range that is large enough, so that few pages are used, and these again and again.
BufferPtr SharedMemory::allocate(std::size_t bytes) {
  const std::size_t whole = (std::max<std::size_t>(bytes, 1) + Allocator::kAlignment - 1) /
                            Allocator::kAlignment * Allocator::kAlignment;
  Range range{};
  {
    const MutexLock lock(mutex_);
    if (closed_ || whole < bytes) return {};
    free_.reserve(parts_ + 2);
    const auto at =
        std::ranges::find_if(free_, [&](const Range& one) { return one.end - one.begin >= whole; });
    if (at == free_.end()) return {};
    range = {at->begin, at->begin + whole};
    at->begin = range.end;
    if (at->begin == at->end) free_.erase(at);
    ++parts_;
  }
  try {
    return BufferPtr(new Part(shared_from_this(), range));
  } catch (...) {
    give(range);
    throw;
  }
}

void SharedMemory::give(Range range) noexcept {
  const MutexLock lock(mutex_);
  --parts_;
  auto after = std::ranges::upper_bound(free_, range.begin, {}, &Range::begin);
  if (after != free_.begin() && std::prev(after)->end == range.begin) {
    range.begin = std::prev(after)->begin;
    after = free_.erase(std::prev(after));
  }
  if (after != free_.end() && after->begin == range.end) {
    after->begin = range.begin;
    return;
  }
  free_.insert(after, range);
}

void SharedMemory::close() noexcept {
  const MutexLock lock(mutex_);
  closed_ = true;
}

std::optional<std::size_t> SharedMemory::offset_of(
    std::span<const std::byte> bytes) const noexcept {
  const std::less_equal<const std::byte*> before;
  if (!before(data_, bytes.data()) || !before(bytes.data() + bytes.size(), data_ + size_))
    return std::nullopt;
  return static_cast<std::size_t>(bytes.data() - data_);
}

std::shared_ptr<const SharedView> SharedView::open(UniqueFd fd) {
  struct stat file {};
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  // Reading a file that was shrunk ends the process.
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd.get(), &file) != 0 ||
      file.st_size <= 0)
    remote::malformed("its shared memory");
  const auto size = static_cast<std::size_t>(file.st_size);
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED)
    throw Error(ErrorCode::resource_exhausted, "can't map the memory of a worker");
  ::madvise(data, size, MADV_DONTDUMP);
  try {
    return std::shared_ptr<const SharedView>(
        new SharedView(static_cast<const std::byte*>(data), size));
  } catch (...) {
    ::munmap(data, size);
    throw;
  }
}

SharedView::~SharedView() {
  ::munmap(const_cast<std::byte*>(data_), size_);
}

std::span<const std::byte> SharedView::at(std::size_t offset, std::size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) remote::malformed("a place in shared memory");
  return {data_ + offset, bytes};
}

}  // namespace penstock
