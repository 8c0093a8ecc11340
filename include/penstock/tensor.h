// n-dimensional arrays that share their memory.
#pragma once

#include <array>
#include <cassert>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/dtype.h>
#include <penstock/shape.h>

namespace penstock {

/// A typed, strided view of a shared buffer. Copying copies the view, not the values. Small
/// contiguous tensors live inside the object and need no buffer.
///
///     Tensor t = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
///     t.slice(1, 1, 2).to_vector<float>();   // {2, 4}, nothing was copied to make the slice
///
/// Not synchronised: distinct objects may be used from distinct threads, also when they share a
/// buffer that nobody writes.
class alignas(16) Tensor {
 public:
  /// Contiguous tensors of at most so many bytes live inside the object.
  static constexpr std::size_t kInlineBytes = 48;

  /// An empty tensor of dtype u8 and shape [0].
  Tensor() noexcept : rep_() {}
  /// A contiguous view of `data`, kept alive by `owner` (null: by the caller). If `data` is null:
  /// uninitialised values in the object, kInlineBytes at most.
  Tensor(DType dtype, const Shape& shape, std::byte* data, BufferPtr owner) noexcept
      : rep_(dtype, shape, data), owner_(std::move(owner)) {}

  /// Uninitialised values; inline if they fit, else from `allocator`. Throws
  /// Error{resource_exhausted}. REQUIRES: shape.is_static(); dtype != bytes unless the shape is a
  /// scalar's.
  static Tensor allocate(DType dtype, const Shape& shape, Allocator& allocator = Allocator::heap());
  template <typename T>
  static Tensor scalar(T value);
  /// A scalar byte string, kept alive by `owner` (null: by the caller).
  static Tensor bytes(std::string_view value, BufferPtr owner) noexcept;
  /// A scalar byte string with memory of its own.
  static Tensor copy_bytes(std::string_view value, Allocator& allocator = Allocator::heap());
  /// A copy of `values`, row-major. Throws Error{invalid_argument} if the count differs from the
  /// shape's volume.
  template <typename T>
  static Tensor of(const Shape& shape, std::span<const T> values);
  template <typename T>
  static Tensor of(const Shape& shape, std::initializer_list<T> values) {
    return of<T>(shape, std::span<const T>(values.begin(), values.size()));
  }
  /// A vector of byte strings that copies each. Shape [values.size()].
  static Tensor of_bytes(std::span<const std::string_view> values,
                         Allocator& allocator = Allocator::heap());

  DType dtype() const noexcept { return rep_.dtype; }
  const Shape& shape() const noexcept { return rep_.shape; }
  int rank() const noexcept { return rep_.shape.rank(); }
  std::int64_t dim(int axis) const noexcept { return rep_.shape[axis]; }
  /// Number of values.
  std::int64_t volume() const noexcept {
    std::int64_t product = 1;
    for (int axis = 0; axis < rep_.shape.rank(); ++axis) product *= rep_.shape[axis];
    return product;
  }
  /// volume() * size_of(dtype()): what a contiguous copy takes, without the text of byte strings.
  std::size_t nbytes() const noexcept {
    return static_cast<std::size_t>(volume()) * size_of(rep_.dtype);
  }
  bool contiguous() const noexcept { return rep_.contiguous; }
  /// Distance between neighbours along `axis`, in values.
  std::int64_t stride(int axis) const noexcept;

  const std::byte* data() const noexcept {
    return rep_.data != nullptr ? rep_.data : rep_.storage.inlined;
  }
  std::byte* mutable_data() noexcept {
    return rep_.data != nullptr ? rep_.data : rep_.storage.inlined;
  }
  const BufferPtr& owner() const noexcept { return owner_; }
  /// Hands over the reference that keeps the values alive: from then on that is the caller's
  /// business.
  BufferPtr release_owner() noexcept { return std::move(owner_); }
  /// True if the values are in the object itself.
  bool is_inline() const noexcept { return rep_.data == nullptr; }

  /// Values of a contiguous tensor. Throws Error{invalid_argument} for another dtype or a strided
  /// view.
  template <typename T>
  std::span<const T> values() const;
  template <typename T>
  std::span<T> mutable_values();
  /// The value of a tensor of volume 1. Throws Error{invalid_argument} for another dtype or volume.
  template <typename T>
  T item() const;
  /// All values in row-major order, strided views too. Throws Error{invalid_argument} for another
  /// dtype.
  template <typename T>
  std::vector<T> to_vector() const;
  /// The byte string at a row-major position of a contiguous `bytes` tensor.
  std::string_view bytes_at(std::int64_t position = 0) const;

  /// A view of [start, stop) with `step` along `axis`. Throws Error{out_of_range}.
  Tensor slice(int axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1) const;
  /// A view at `index` of the outermost dimension, which is dropped. Throws Error{out_of_range}.
  Tensor operator[](std::int64_t index) const;
  /// Same values under another shape. Throws Error{invalid_argument} unless contiguous and of equal
  /// volume.
  Tensor reshape(const Shape& shape) const;
  /// A contiguous copy of the values (not of the text of byte strings).
  Tensor clone(Allocator& allocator = Allocator::heap()) const;
  /// Writes the values contiguously to `out`, which must hold nbytes().
  void copy_to(std::byte* out) const noexcept;

 private:
  void check_access(DType dtype) const;
  std::byte* copy_strided(std::byte* out, int axis, const std::byte* in) const noexcept;
  Tensor view(const Shape& shape, std::span<const std::int64_t> strides, std::int64_t first) const;

  union Storage {
    std::int64_t strides[kMaxRank];
    std::byte inlined[kInlineBytes];
  };

  // Trivially copyable, so that a move is one block copy.
  struct Rep {
    Rep() noexcept : data(nullptr), shape(Shape::NoValues()), dtype(DType::u8), storage{} {}
    Rep(DType values, const Shape& extents, std::byte* memory) noexcept
        : data(memory), shape(extents), dtype(values), storage{} {}

    std::byte* data;  // null: the values are storage.inlined
    Shape shape;
    DType dtype;
    bool contiguous = true;  // false: storage.strides is in use
    Storage storage;
  };
  static_assert(std::is_trivially_copyable_v<Rep>);

  Rep rep_;
  BufferPtr owner_;
};

template <typename T>
Tensor Tensor::scalar(T value) {
  static_assert(std::is_trivially_copyable_v<T> && dtype_of<T> != DType::bytes);
  Tensor result(dtype_of<T>, Shape(), nullptr, BufferPtr());
  std::memcpy(result.rep_.storage.inlined, &value, sizeof(T));
  return result;
}

template <typename T>
std::span<const T> Tensor::values() const {
  check_access(dtype_of<T>);
  return {reinterpret_cast<const T*>(data()), static_cast<std::size_t>(volume())};
}

template <typename T>
std::span<T> Tensor::mutable_values() {
  check_access(dtype_of<T>);
  return {reinterpret_cast<T*>(mutable_data()), static_cast<std::size_t>(volume())};
}

template <typename T>
T Tensor::item() const {
  const std::span<const T> all = values<T>();
  if (all.size() != 1) check_access(static_cast<DType>(kDTypeCount));
  return all.front();
}

template <typename T>
std::vector<T> Tensor::to_vector() const {
  if (!rep_.contiguous) return clone().template to_vector<T>();
  const std::span<const T> all = values<T>();
  return {all.begin(), all.end()};
}

template <typename T>
Tensor Tensor::of(const Shape& shape, std::span<const T> values) {
  Tensor result = allocate(dtype_of<T>, shape);
  if (static_cast<std::size_t>(shape.volume()) != values.size())
    result.check_access(static_cast<DType>(kDTypeCount));
  if (!values.empty()) std::memcpy(result.mutable_data(), values.data(), values.size_bytes());
  return result;
}

}  // namespace penstock
