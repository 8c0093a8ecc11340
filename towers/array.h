// What layers compute with: dense values in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <penstock/buffer.h>
#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock::towers {

/// Values of a shape, row-major; images are channels last. They are f32 in host memory, or what a
/// tower's GPU made them. Owns its memory, which is kept when the shape changes, so that a steady
/// state allocates nothing; or views somebody else's. Not synchronised.
class Array {
 public:
  Array() = default;
  /// Zeros. Throws Error{resource_exhausted}.
  explicit Array(const Shape& shape);
  /// Empty; its memory will come from there, which must outlive it.
  Array(Allocator* memory, DType dtype) : memory_(memory), dtype_(dtype) {}
  Array(Array&&) noexcept = default;
  Array& operator=(Array&&) noexcept = default;

  /// Of memory that outlives the array and is not changed through a const one.
  static Array view(float* data, const Shape& shape);
  static Array view(const float* data, const Shape& shape);
  static Array view(void* data, DType dtype, const Shape& shape);

  /// Values are undefined afterwards, unless the volume is the same. Throws as the constructor.
  void resize(const Shape& shape);
  /// REQUIRES: f32 in host memory.
  void fill(float value) noexcept;

  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  std::int64_t dim(int axis) const noexcept { return shape_[axis]; }
  /// Values of one row: of everything but the outermost dimension.
  std::int64_t row_size() const noexcept;
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

  std::size_t nbytes() const { return size_ * size_of(dtype_); }

  /// REQUIRES: f32. Where the array is a GPU's, for kernels only.
  float* data() noexcept { return as<float>(); }
  const float* data() const noexcept { return as<float>(); }
  std::span<float> values() noexcept { return {data(), size_}; }
  std::span<const float> values() const noexcept { return {data(), size_}; }
  std::byte* bytes() noexcept { return data_; }
  const std::byte* bytes() const noexcept { return data_; }
  template <typename T>
  T* as() noexcept {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const noexcept {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  struct GiveBack {
    Allocator* memory;
    std::size_t bytes;
    void operator()(std::byte* data) const noexcept { memory->deallocate(data, bytes); }
  };

  Shape shape_{0};
  std::size_t size_ = 0;
  std::byte* data_ = nullptr;
  std::unique_ptr<std::byte, GiveBack> owned_;  // null for a view
  Allocator* memory_ = nullptr;                 // null: the heap
  DType dtype_ = DType::f32;
};

}  // namespace penstock::towers
