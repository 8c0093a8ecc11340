// Memory that tensors share: allocators and reference-counted buffers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace penstock {

/// Where buffers get their memory: the heap, or pinned memory for a device.
/// Implementations must be thread-safe.
class Allocator {
 public:
  static constexpr std::size_t kAlignment = 64;

  virtual ~Allocator() = default;
  /// At least `bytes` bytes aligned to kAlignment. Throws Error{resource_exhausted}.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void deallocate(std::byte* data, std::size_t bytes) noexcept = 0;

  /// The process-wide heap allocator.
  static Allocator& heap() noexcept;
};

/// A region of memory with an atomic reference count. What happens when the last reference goes is
/// the owner's business: `dispose` may free the memory or hand it back to a pool.
class Buffer {
 public:
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

  void add_ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) dispose();
  }
  /// How a buffer that is used again and again got its contents.
  struct Made {
    std::int64_t at_ns = -1;  ///< when they were complete, on the steady clock; -1: not known
    int of = 0;               ///< such buffers that there may be at once; 0: any number
  };
  virtual Made made() const noexcept { return {}; }
  /// True if the caller holds the only reference, so that it may write.
  bool unique() const noexcept { return refs_.load(std::memory_order_acquire) == 1; }

 protected:
  Buffer() = default;
  virtual ~Buffer() = default;
  /// Called once, by the thread that dropped the last reference. Must not throw.
  virtual void dispose() noexcept = 0;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;

 private:
  std::atomic<unsigned> refs_{0};
};

/// Owner of one reference to an intrusively counted object.
template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) noexcept : object_(object) {
    if (object_ != nullptr) object_->add_ref();
  }
  Ref(const Ref& other) noexcept : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

using BufferPtr = Ref<Buffer>;

/// A buffer of exactly `bytes` bytes whose memory goes back to `allocator` with the last reference.
/// Throws Error{resource_exhausted}. The contents are not initialised.
BufferPtr allocate_buffer(std::size_t bytes, Allocator& allocator = Allocator::heap());

}  // namespace penstock
