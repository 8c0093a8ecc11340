// What layers compute with: dense f32 values in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <penstock/buffer.h>
#include <penstock/shape.h>

namespace penstock::towers {

/// f32 values of a shape, row-major; images are channels last. Owns its memory, which is kept when
/// the shape changes, so that a steady state allocates nothing; or views somebody else's. Not
/// synchronised.
class Array {
 public:
  Array() = default;
  /// Zeros. Throws Error{resource_exhausted}.
  explicit Array(const Shape& shape);
  Array(Array&&) noexcept = default;
  Array& operator=(Array&&) noexcept = default;

  /// Of memory that outlives the array and is not changed through a const one.
  static Array view(float* data, const Shape& shape);
  static Array view(const float* data, const Shape& shape);

  /// Values are undefined afterwards, unless the volume is the same. Throws as the constructor.
  void resize(const Shape& shape);
  void fill(float value) noexcept;

  const Shape& shape() const noexcept { return shape_; }
  std::int64_t dim(int axis) const noexcept { return shape_[axis]; }
  /// Values of one row: of everything but the outermost dimension.
  std::int64_t row_size() const noexcept;
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

  float* data() noexcept { return data_; }
  const float* data() const noexcept { return data_; }
  std::span<float> values() noexcept { return {data_, size_}; }
  std::span<const float> values() const noexcept { return {data_, size_}; }

 private:
  Shape shape_{0};
  std::size_t size_ = 0;
  float* data_ = nullptr;
  BufferPtr buffer_;  // null for a view
};

}  // namespace penstock::towers
