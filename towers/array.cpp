#include <penstock/towers/array.h>

#include <algorithm>
#include <utility>

namespace penstock::towers {

Array::Array(const Shape& shape) {
  resize(shape);
  fill(0);
}

Array::Array(Array&& other) noexcept : memory_(other.memory_), dtype_(other.dtype_) {
  *this = std::move(other);
}

Array& Array::operator=(Array&& other) noexcept {
  if (this == &other) return *this;
  shape_ = std::exchange(other.shape_, Shape{0});
  size_ = std::exchange(other.size_, 0);
  data_ = std::exchange(other.data_, nullptr);
  owned_ = std::exchange(other.owned_, {});  // with the size of its memory
  memory_ = other.memory_;
  dtype_ = other.dtype_;
  return *this;
}

Array Array::view(void* data, DType dtype, const Shape& shape) {
  Array array(nullptr, dtype);
  array.shape_ = shape;
  array.size_ = static_cast<std::size_t>(shape.volume());
  array.data_ = static_cast<std::byte*>(data);
  return array;
}

Array Array::view(float* data, const Shape& shape) {
  return view(data, DType::f32, shape);
}

Array Array::view(const float* data, const Shape& shape) {
  return view(const_cast<float*>(data), shape);  // NOLINT: see the header
}

void Array::resize(const Shape& shape) {
  const auto size = static_cast<std::size_t>(shape.volume());
  const std::size_t bytes = size * size_of(dtype_);
  if (size > size_ && bytes > owned_.get_deleter().bytes) {
    *this = Array(memory_, dtype_);  // frees the old memory before requesting more
    Allocator& memory = memory_ != nullptr ? *memory_ : Allocator::heap();
    // Not a buffer, which would keep its own state there: the host may be unable to reach this
    // memory.
    owned_ = {memory.allocate(bytes), {&memory, bytes}};
    data_ = owned_.get();
  }
  shape_ = shape;
  size_ = size;
}

void Array::fill(float value) noexcept {
  std::fill_n(data(), size_, value);
}

std::int64_t Array::row_size() const noexcept {
  std::int64_t product = 1;
  for (int axis = 1; axis < shape_.rank(); ++axis) product *= shape_[axis];
  return product;
}

}  // namespace penstock::towers
