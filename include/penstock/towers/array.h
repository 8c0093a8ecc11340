// Arrays: dense values in memory, which layers compute with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <penstock/buffer.h>
#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock::towers {

/// Values of a shape, row-major; images are channels last. They are f32 in host memory, or in the
/// memory and dtype of a tower's GPU. An array owns its memory, or views memory of other code.
/// Owned memory is kept when the shape changes, so that a steady state allocates nothing. Not
/// synchronised.
class Array {
 public:
  Array() = default;
  /// Makes an array of zeros. Throws Error{resource_exhausted}.
  explicit Array(const Shape& shape);
  /// Makes an empty array that takes its memory from `memory`, which must outlive it.
  Array(Allocator* memory, DType dtype) : memory_(memory), dtype_(dtype) {}
  /// Leaves `other` without values.
  Array(Array&& other) noexcept;
  Array& operator=(Array&& other) noexcept;

  /// Returns a view of memory that outlives the array. The values must not be changed through a
  /// view of const memory.
  static Array view(float* data, const Shape& shape);
  static Array view(const float* data, const Shape& shape);
  static Array view(void* data, DType dtype, const Shape& shape);

  /// Changes the shape. Values are undefined afterwards, unless the volume stays the same. Throws
  /// as the constructor does.
  void resize(const Shape& shape);
  /// Sets all values. REQUIRES: f32 in host memory.
  void fill(float value) noexcept;

  /// Returns the type of a value.
  DType dtype() const noexcept { return dtype_; }
  /// Returns the extent of each dimension.
  const Shape& shape() const noexcept { return shape_; }
  /// Returns the extent along `axis`. REQUIRES: 0 <= axis < the rank.
  std::int64_t dim(int axis) const noexcept { return shape_[axis]; }
  /// Returns the number of values of one row: of all dimensions but the outermost.
  std::int64_t row_size() const noexcept;
  /// Returns the number of values.
  std::size_t size() const noexcept { return size_; }
  /// Returns true if there are no values.
  bool empty() const noexcept { return size_ == 0; }

  /// Returns the bytes of the values.
  std::size_t nbytes() const { return size_ * size_of(dtype_); }

  /// Returns the first value. REQUIRES: f32. If the array is in a GPU's memory, only kernels may
  /// use the pointer.
  float* data() noexcept { return as<float>(); }
  const float* data() const noexcept { return as<float>(); }
  /// Returns all values. REQUIRES: f32.
  std::span<float> values() noexcept { return {data(), size_}; }
  std::span<const float> values() const noexcept { return {data(), size_}; }

  /// Returns the memory of the values, whatever their dtype.
  std::byte* bytes() noexcept { return data_; }
  const std::byte* bytes() const noexcept { return data_; }
  /// Returns the memory of the values as that of values of type T.
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
