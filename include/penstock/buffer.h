// Memory that tensors share: allocators and reference-counted buffers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace penstock {

class HeldMark;
class Mapping;

/// A provider of memory for buffers: the heap, or pinned memory for a device. Implementations must
/// be thread-safe.
class Allocator {
 public:
  /// The alignment of all memory, in bytes.
  static constexpr std::size_t kAlignment = 64;

  virtual ~Allocator() = default;

  /// Returns at least `bytes` bytes, aligned to kAlignment. Throws Error{resource_exhausted}.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// Takes back memory that `allocate` returned for the same number of bytes.
  virtual void deallocate(std::byte* data, std::size_t bytes) noexcept = 0;

  /// Returns the process-wide heap allocator.
  static Allocator& heap() noexcept;
};

/// A region of memory with an atomic reference count. When the last reference goes, the owner's
/// `dispose` frees the memory or returns it to a pool.
class Buffer {
 public:
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Returns the first byte.
  std::byte* data() const noexcept { return data_; }
  /// Returns the number of bytes.
  std::size_t size() const noexcept { return size_; }

  /// Adds a reference. Use `Ref` instead of calling this.
  void add_ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  /// Removes a reference, and disposes of the buffer if it was the last.
  void release() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) dispose();
  }
  /// The times at which a reused buffer was filled.
  struct Made {
    std::int64_t at_ns = -1;     ///< when it was complete, on the steady clock; -1: not known
    int of = 0;                  ///< how many such buffers there may be at once; 0: any number
    std::int64_t begun_ns = -1;  ///< when it was taken to be filled; -1: not known
  };
  /// Returns these times, if the owner knows them.
  virtual Made made() const noexcept { return {}; }
  /// Returns the mapped file that this memory is, to which other processes may write. Null for
  /// memory that only this process has.
  virtual const Mapping* mapping() const noexcept { return nullptr; }
  /// Returns what counts the memory for the run that made it. Null if none does.
  virtual HeldMark* held_mark() noexcept { return nullptr; }
  /// Calls `use` for each buffer that this one keeps.
  virtual void for_each_part(const std::function<void(Buffer& part)>& /*use*/) noexcept {}
  /// Returns true if the caller holds the only reference, so that it may write.
  bool unique() const noexcept { return refs_.load(std::memory_order_acquire) == 1; }

 protected:
  Buffer() = default;
  virtual ~Buffer() = default;
  /// Frees or recycles the memory. The thread that dropped the last reference calls it, once. Must
  /// not throw.
  virtual void dispose() noexcept = 0;

  std::byte* data_ = nullptr;  ///< the memory
  std::size_t size_ = 0;       ///< its bytes

 private:
  std::atomic<unsigned> refs_{0};
};

/// The owner of one reference to an object that counts its references.
template <typename T>
class Ref {
 public:
  /// No object.
  Ref() = default;
  /// Takes a reference of its own to `object`, which may be null.
  explicit Ref(T* object) noexcept : object_(object) {
    if (object_ != nullptr) object_->add_ref();
  }
  /// Takes another reference to the same object.
  Ref(const Ref& other) noexcept : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  /// Releases its reference, and takes that of `other`.
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }

  /// Returns the object, or null.
  T* get() const noexcept { return object_; }
  /// Returns the object. REQUIRES: there is one.
  T* operator->() const noexcept { return object_; }
  /// Returns the object. REQUIRES: there is one.
  T& operator*() const noexcept { return *object_; }
  /// Returns true if there is an object.
  explicit operator bool() const noexcept { return object_ != nullptr; }
  /// Returns true if both refer to the same object, or to none.
  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

/// One reference to a buffer.
using BufferPtr = Ref<Buffer>;

/// Returns a buffer of exactly `bytes` bytes. Its memory goes back to `allocator` with the last
/// reference. The contents are not initialised. Throws Error{resource_exhausted}.
BufferPtr allocate_buffer(std::size_t bytes, Allocator& allocator = Allocator::heap());

}  // namespace penstock
