#include "towers/array.h"

#include <algorithm>

namespace penstock::towers {

Array::Array(const Shape& shape) {
  resize(shape);
  fill(0);
}

Array Array::view(float* data, const Shape& shape) {
  Array array;
  array.shape_ = shape;
  array.size_ = static_cast<std::size_t>(shape.volume());
  array.data_ = data;
  return array;
}

Array Array::view(const float* data, const Shape& shape) {
  return view(const_cast<float*>(data), shape);  // NOLINT: see the header
}

void Array::resize(const Shape& shape) {
  const auto size = static_cast<std::size_t>(shape.volume());
  if (size > size_ && (!buffer_ || size * sizeof(float) > buffer_->size())) {
    buffer_ = allocate_buffer(size * sizeof(float));
    data_ = reinterpret_cast<float*>(buffer_->data());
  }
  shape_ = shape;
  size_ = size;
}

void Array::fill(float value) noexcept {
  std::fill_n(data_, size_, value);
}

std::int64_t Array::row_size() const noexcept {
  std::int64_t product = 1;
  for (int axis = 1; axis < shape_.rank(); ++axis) product *= shape_[axis];
  return product;
}

}  // namespace penstock::towers
