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
/// contiguous tensors live inside the object and need no buffer; a view of one copies its values.
///
///     Tensor t = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
///     t.slice(1, 1, 2).to_vector<float>();   // {2, 4}
///
/// Not synchronised. Distinct threads may use distinct objects, even if these share a buffer that
/// no thread writes.
class alignas(16) Tensor {
 public:
  /// Contiguous tensors of at most this many bytes live inside the object.
  static constexpr std::size_t kInlineBytes = 48;

  /// An empty tensor of dtype u8 and shape [0].
  Tensor() noexcept : rep_() {}
  /// A contiguous view of `data`. `owner` keeps the memory alive; if it is null, the caller does.
  /// If `data` is null, the values are uninitialised and inside the object, at most kInlineBytes.
  Tensor(DType dtype, const Shape& shape, std::byte* data, BufferPtr owner) noexcept
      : rep_(dtype, shape, data), owner_(std::move(owner)) {}

  Tensor(const Tensor&) = default;
  Tensor& operator=(const Tensor&) = default;
  /// Leaves `other` empty.
  Tensor(Tensor&& other) noexcept;
  /// Leaves `other` empty.
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor() = default;

  /// Returns a tensor of uninitialised values: inline if they fit, else from `allocator`. Throws
  /// Error{resource_exhausted}. REQUIRES: shape.is_static(); dtype != bytes unless the shape is a
  /// scalar's.
  static Tensor allocate(DType dtype, const Shape& shape, Allocator& allocator = Allocator::heap());
  /// Returns a tensor of one number. A long long is stored as i64. For text use `copy_bytes`.
  template <typename T>
  static Tensor scalar(T value);
  /// Returns a scalar byte string. `owner` keeps it alive; if it is null, the caller does.
  static Tensor bytes(std::string_view value, BufferPtr owner) noexcept;
  /// Returns a scalar byte string with memory of its own.
  static Tensor copy_bytes(std::string_view value, Allocator& allocator = Allocator::heap());
  /// Returns a copy of `values`, row-major. Throws Error{invalid_argument} if their number differs
  /// from the shape's volume.
  template <typename T>
  static Tensor of(const Shape& shape, std::span<const T> values);
  template <typename T>
  static Tensor of(const Shape& shape, std::initializer_list<T> values) {
    return of<T>(shape, std::span<const T>(values.begin(), values.size()));
  }
  /// Returns a vector of byte strings, with a copy of each. Its shape is [values.size()].
  static Tensor of_bytes(std::span<const std::string_view> values,
                         Allocator& allocator = Allocator::heap());

  /// Returns the type of a value.
  DType dtype() const noexcept { return rep_.dtype; }
  /// Returns the extent of each dimension.
  const Shape& shape() const noexcept { return rep_.shape; }
  /// Returns the number of dimensions.
  int rank() const noexcept { return rep_.shape.rank(); }
  /// Returns the extent along `axis`. REQUIRES: 0 <= axis < rank().
  std::int64_t dim(int axis) const noexcept { return rep_.shape[axis]; }

  /// Returns the number of values.
  std::int64_t volume() const noexcept {
    std::int64_t product = 1;
    for (int axis = 0; axis < rep_.shape.rank(); ++axis) product *= rep_.shape[axis];
    return product;
  }
  /// Returns volume() * size_of(dtype()): the bytes of a contiguous copy, without the text of byte
  /// strings.
  std::size_t nbytes() const noexcept {
    return static_cast<std::size_t>(volume()) * size_of(rep_.dtype);
  }
  /// Returns true if the values are row-major without gaps.
  bool contiguous() const noexcept { return rep_.contiguous; }
  /// Returns the distance between neighbours along `axis`, in values.
  std::int64_t stride(int axis) const noexcept;

  /// Returns the first value's memory.
  const std::byte* data() const noexcept {
    return rep_.data != nullptr ? rep_.data : rep_.storage.inlined;
  }
  /// Returns the first value's memory for writing. Other tensors that share the buffer see the
  /// change.
  std::byte* mutable_data() noexcept {
    return rep_.data != nullptr ? rep_.data : rep_.storage.inlined;
  }
  /// Returns the reference that keeps the values alive; null if there is none.
  const BufferPtr& owner() const noexcept { return owner_; }
  /// Returns the reference that keeps the values alive and gives it up. From then on the caller
  /// keeps them alive.
  BufferPtr release_owner() noexcept { return std::move(owner_); }
  /// Returns true if the values are in the object itself.
  bool is_inline() const noexcept { return rep_.data == nullptr; }

  /// Returns the values of a contiguous tensor. Throws Error{invalid_argument} for another dtype or
  /// a strided view.
  template <typename T>
  std::span<const T> values() const;
  /// Returns the values of a contiguous tensor for writing. Throws as `values` does.
  template <typename T>
  std::span<T> mutable_values();
  /// Returns the value of a tensor of volume 1. Throws Error{invalid_argument} for another dtype or
  /// volume.
  template <typename T>
  T item() const;
  /// Returns all values in row-major order, also of a strided view. Throws Error{invalid_argument}
  /// for another dtype.
  template <typename T>
  std::vector<T> to_vector() const;
  /// Returns the byte string at a row-major position of a contiguous `bytes` tensor. Throws
  /// Error{invalid_argument} for another dtype or a strided view, and Error{out_of_range} for a
  /// position outside of the tensor.
  std::string_view bytes_at(std::int64_t position = 0) const;

  /// Returns a view of [start, stop) with `step` along `axis`. Throws Error{out_of_range}.
  Tensor slice(int axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1) const;
  /// Returns a view at `index` of the outermost dimension, which is dropped. Throws
  /// Error{out_of_range}.
  Tensor operator[](std::int64_t index) const;
  /// Returns the same values under another shape. Throws Error{invalid_argument} unless the tensor
  /// is contiguous and the volumes are equal.
  Tensor reshape(const Shape& shape) const;
  /// Returns a contiguous copy of the values (not of the text of byte strings).
  Tensor clone(Allocator& allocator = Allocator::heap()) const;
  /// Writes the values contiguously to `out`, which must hold nbytes().
  void copy_to(std::byte* out) const noexcept;

 private:
  void forget() noexcept {
    rep_.data = nullptr;
    rep_.shape = Shape(Shape::NoValues());
  }
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

// GCC does not see that elements move no more tensors than they hold.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
inline Tensor::Tensor(Tensor&& other) noexcept : rep_(other.rep_), owner_(std::move(other.owner_)) {
  other.forget();
}

inline Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this != &other) {
    rep_ = other.rep_;
    owner_ = std::move(other.owner_);
    other.forget();
  }
  return *this;
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

template <typename T>
Tensor Tensor::scalar(T value) {
  if constexpr (std::is_convertible_v<T, std::string_view>) {
    static_assert(kNever<T>, "Tensor::scalar takes a number; text goes to Tensor::copy_bytes");
  } else if constexpr (TensorValue<Stored<T>>) {
    Tensor result(dtype_of<Stored<T>>, Shape(), nullptr, BufferPtr());
    std::memcpy(result.rep_.storage.inlined, &value, sizeof(T));
    return result;
  } else {
    static_assert(kNever<T>,
                  "Tensor::scalar takes a number of a fixed width (std::int64_t, std::uint8_t, "
                  "float...), a bool, Half or BFloat16");
  }
}

template <typename T>
std::span<const T> Tensor::values() const {
  if constexpr (TensorValue<T>) {
    check_access(dtype_of<T>);
    return {reinterpret_cast<const T*>(data()), static_cast<std::size_t>(volume())};
  } else {
    static_assert(kNever<T>,
                  "a tensor's values are read as what it stores: std::int64_t rather than long "
                  "long, std::uint8_t rather than char, std::string_view rather than std::string");
  }
}

template <typename T>
std::span<T> Tensor::mutable_values() {
  if constexpr (TensorValue<T>) {
    check_access(dtype_of<T>);
    return {reinterpret_cast<T*>(mutable_data()), static_cast<std::size_t>(volume())};
  } else {
    static_assert(kNever<T>,
                  "a tensor's values are written as what it stores: std::int64_t rather than long "
                  "long, std::uint8_t rather than char, std::string_view rather than std::string");
  }
}

template <typename T>
T Tensor::item() const {
  const std::span<const Stored<T>> all = values<Stored<T>>();
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
