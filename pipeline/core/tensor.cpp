#include <penstock/tensor.h>

#include <algorithm>
#include <limits>
#include <string>

#include <penstock/error.h>

#include "pipeline/core/sizes.h"
#include "pipeline/core/texts.h"

namespace penstock {
namespace {

// Views into text that another buffer keeps alive.
class LinkedBuffer final : public Buffer {
 public:
  LinkedBuffer(BufferPtr views, BufferPtr text) noexcept
      : views_(std::move(views)), text_(std::move(text)) {
    data_ = views_->data();
    size_ = views_->size();
  }
  void for_each_part(const std::function<void(Buffer& part)>& use) noexcept override {
    use(*views_);
    use(*text_);
  }

 private:
  void dispose() noexcept override { delete this; }

  BufferPtr views_;
  BufferPtr text_;
};

std::string describe(const Tensor& tensor) {
  return std::string(name_of(tensor.dtype())) + " " + tensor.shape().to_string();
}

[[noreturn]] void throw_range(const Tensor& tensor, const std::string& what) {
  throw Error(ErrorCode::out_of_range, what + " is outside of a tensor of " + describe(tensor));
}

[[noreturn]] void refuse_position(const Tensor& tensor, std::int64_t position) {
  throw_range(tensor, "position " + std::to_string(position));
}

[[noreturn]] void refuse_access(const Tensor& tensor, DType dtype) {
  std::string what = "a tensor of " + describe(tensor);
  if (static_cast<int>(dtype) >= kDTypeCount) {
    what += " has another number of values than asked for";
  } else if (dtype != tensor.dtype()) {
    what += " was read as " + std::string(name_of(dtype));
  } else {
    what += " is a strided view; clone() it or use to_vector()";
  }
  throw Error(ErrorCode::invalid_argument, what);
}

}  // namespace

std::size_t bytes_of(DType dtype, const Shape& shape) {
  const std::int64_t volume = shape.volume();
  if (volume < 0) {
    throw Error(ErrorCode::invalid_argument,
                "can't allocate a tensor of unknown shape " + shape.to_string());
  }
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(volume), size_of(dtype), &bytes)) {
    throw Error(ErrorCode::out_of_range,
                "a tensor of shape " + shape.to_string() + " is too large");
  }
  return bytes;
}

Tensor Tensor::allocate(DType dtype, const Shape& shape, Allocator& allocator) {
  const std::size_t bytes = bytes_of(dtype, shape);
  if (dtype == DType::bytes && shape.rank() != 0) {
    throw Error(ErrorCode::invalid_argument,
                "can't allocate byte strings of shape " + shape.to_string());
  }
  Tensor result(dtype, shape, nullptr, BufferPtr());
  if (dtype == DType::bytes) {
    const std::string_view empty;
    std::memcpy(result.rep_.storage.inlined, &empty, sizeof(empty));
  }
  if (bytes > kInlineBytes) {
    result.owner_ = allocate_buffer(bytes, allocator);
    result.rep_.data = result.owner_->data();
  }
  return result;
}

Tensor Tensor::bytes(std::string_view value, BufferPtr owner) noexcept {
  Tensor result(DType::bytes, Shape(), nullptr, std::move(owner));
  std::memcpy(result.rep_.storage.inlined, &value, sizeof(value));
  return result;
}

Tensor Tensor::copy_bytes(std::string_view value, Allocator& allocator) {
  if (value.empty()) return bytes({}, BufferPtr());
  BufferPtr buffer = allocate_buffer(value.size(), allocator);
  std::memcpy(buffer->data(), value.data(), value.size());
  const std::string_view copy(reinterpret_cast<const char*>(buffer->data()), value.size());
  return bytes(copy, std::move(buffer));
}

Tensor Tensor::of_bytes(std::span<const std::string_view> values, Allocator& allocator) {
  return texts_in(allocate_buffer(bytes_of_texts(values), allocator), values);
}

std::int64_t Tensor::stride(int axis) const noexcept {
  if (!rep_.contiguous) return rep_.storage.strides[axis];
  std::int64_t product = 1;
  for (int i = axis + 1; i < rank(); ++i) product *= rep_.shape[i];
  return product;
}

std::string_view Tensor::bytes_at(std::int64_t position) const {
  check_access(DType::bytes);
  if (position < 0 || position >= volume()) refuse_position(*this, position);
  return reinterpret_cast<const std::string_view*>(data())[position];
}

// Returns a view that starts `first` values into this tensor. Inline values are copied, as a view
// of them would point into this object.
Tensor Tensor::view(const Shape& shape, std::span<const std::int64_t> strides,
                    std::int64_t first) const {
  Tensor result(rep_.dtype, shape, nullptr, owner_);
  std::int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const std::int64_t stride = strides[static_cast<std::size_t>(i)];
    if (shape[i] != 1 && stride != expected) result.rep_.contiguous = false;
    expected *= shape[i];
    result.rep_.storage.strides[i] = stride;
  }
  if (expected == 0) result.rep_.contiguous = true;
  const std::size_t offset = static_cast<std::size_t>(first) * size_of(rep_.dtype);
  if (rep_.data != nullptr) {
    result.rep_.data = rep_.data + offset;
    return result;
  }
  Tensor copy(rep_.dtype, shape, nullptr, owner_);
  result.copy_strided(copy.rep_.storage.inlined, 0, rep_.storage.inlined + offset);
  return copy;
}

Tensor Tensor::slice(int axis, std::int64_t start, std::int64_t stop, std::int64_t step) const {
  if (axis < 0 || axis >= rank()) throw_range(*this, "axis " + std::to_string(axis));
  if (start < 0 || stop < start || stop > dim(axis) || step < 1) {
    throw_range(*this, "slice [" + std::to_string(start) + ", " + std::to_string(stop) +
                           ") with step " + std::to_string(step) + " along axis " +
                           std::to_string(axis));
  }
  const std::int64_t extent = start == stop ? 0 : (stop - start - 1) / step + 1;
  std::array<std::int64_t, kMaxRank> strides{};
  for (int i = 0; i < rank(); ++i) strides[static_cast<std::size_t>(i)] = stride(i);
  const std::int64_t first = extent == 0 ? 0 : start * stride(axis);
  if (extent > 1) strides[static_cast<std::size_t>(axis)] *= step;
  return view(rep_.shape.with(axis, extent), strides, first);
}

Tensor Tensor::operator[](std::int64_t index) const {
  if (rank() == 0 || index < 0 || index >= dim(0)) {
    throw_range(*this, "index " + std::to_string(index));
  }
  std::array<std::int64_t, kMaxRank> strides{};
  for (int i = 1; i < rank(); ++i) strides[static_cast<std::size_t>(i) - 1] = stride(i);
  return view(rep_.shape.drop_front(), strides, index * stride(0));
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (!rep_.contiguous || shape.volume() != volume()) {
    throw Error(ErrorCode::invalid_argument,
                std::string("can't reshape a ") + (rep_.contiguous ? "" : "strided ") +
                    "tensor of " + describe(*this) + " to " + shape.to_string());
  }
  Tensor result = *this;
  result.rep_.shape = shape;
  return result;
}

Tensor Tensor::clone(Allocator& allocator) const {
  const bool text = rep_.dtype == DType::bytes;
  Tensor result(rep_.dtype, rep_.shape, nullptr, text ? owner_ : BufferPtr());
  if (nbytes() > kInlineBytes) {
    BufferPtr buffer = allocate_buffer(nbytes(), allocator);
    result.rep_.data = buffer->data();
    if (text && owner_) buffer = BufferPtr(new LinkedBuffer(std::move(buffer), owner_));
    result.owner_ = std::move(buffer);
  }
  copy_to(result.mutable_data());
  return result;
}

void Tensor::copy_to(std::byte* out) const noexcept {
  if (rep_.contiguous) {
    if (nbytes() > 0) std::memcpy(out, data(), nbytes());
  } else {
    copy_strided(out, 0, rep_.data);
  }
}

std::byte* Tensor::copy_strided(std::byte* out, int axis, const std::byte* in) const noexcept {
  const std::size_t size = size_of(rep_.dtype);
  if (axis == rank()) {
    std::memcpy(out, in, size);
    return out + size;
  }
  const std::size_t extent = static_cast<std::size_t>(rep_.shape[axis]);
  if (axis == rank() - 1 && stride(axis) == 1) {
    if (extent > 0) std::memcpy(out, in, extent * size);
    return out + extent * size;
  }
  const std::ptrdiff_t distance = stride(axis) * static_cast<std::ptrdiff_t>(size);
  for (std::size_t i = 0; i < extent; ++i) {
    out = copy_strided(out, axis + 1, in);
    in += distance;
  }
  return out;
}

void Tensor::check_access(DType dtype) const {
  if (dtype != rep_.dtype || !rep_.contiguous) refuse_access(*this, dtype);
}

}  // namespace penstock
