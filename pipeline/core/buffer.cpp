#include <penstock/buffer.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <string>

#include <sys/mman.h>

#include <penstock/error.h>

namespace penstock {
namespace {

class HeapAllocator final : public Allocator {
 public:
  std::byte* allocate(std::size_t bytes) override {
    void* memory = ::operator new(bytes, alignment(bytes), std::nothrow);
    if (memory == nullptr) {
      throw Error(ErrorCode::resource_exhausted,
                  "no memory for " + std::to_string(bytes) + " bytes");
    }
    // Slots are touched first while work waits for them. A page fault for each 4 KiB would take
    // longer than filling the slot. This is only advice to the kernel, so a failure does not
    // matter.
    if (bytes >= kLarge) (void)::madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    return static_cast<std::byte*>(memory);
  }
  void deallocate(std::byte* data, std::size_t bytes) noexcept override {
    ::operator delete(data, alignment(bytes));
  }

 private:
  static constexpr std::size_t kHugePage = 2U << 20;
  static constexpr std::size_t kLarge = 2 * kHugePage;

  static std::align_val_t alignment(std::size_t bytes) noexcept {
    return std::align_val_t{bytes >= kLarge ? kHugePage : kAlignment};
  }
};

// Stands before its own bytes, in the same allocation.
class PlainBuffer final : public Buffer {
 public:
  PlainBuffer(std::byte* memory, std::size_t bytes, Allocator& allocator) noexcept
      : allocator_(&allocator) {
    data_ = memory;
    size_ = bytes;
  }

 private:
  void dispose() noexcept override;

  Allocator* allocator_;
};

constexpr std::size_t kHeader = Allocator::kAlignment;
static_assert(sizeof(PlainBuffer) <= kHeader);

void PlainBuffer::dispose() noexcept {
  Allocator& allocator = *allocator_;
  std::byte* memory = data_ - kHeader;
  const std::size_t bytes = size_ + kHeader;
  this->~PlainBuffer();
  allocator.deallocate(memory, bytes);
}

}  // namespace

Allocator& Allocator::heap() noexcept {
  // Never destroyed: a run in a static object may return memory after a static allocator was gone.
  alignas(HeapAllocator) static std::byte place[sizeof(HeapAllocator)];
  static HeapAllocator* const allocator = ::new (place) HeapAllocator;
  return *allocator;
}

BufferPtr allocate_buffer(std::size_t bytes, Allocator& allocator) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) - kHeader) {
    throw Error(ErrorCode::resource_exhausted, "no memory for " + std::to_string(bytes) + " bytes");
  }
  std::byte* memory = allocator.allocate(kHeader + bytes);
  return BufferPtr(::new (memory) PlainBuffer(memory + kHeader, bytes, allocator));
}

}  // namespace penstock
