// Elements: ordered sets of named tensors, which flow through the graph.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/tensor.h>

namespace penstock {

/// An interned list of component names. Equal lists are the same object, which lives for ever.
class Names {
 public:
  /// Returns the object for this list. Thread-safe. The set of distinct lists in a process is
  /// small; they are never freed. Throws Error{resource_exhausted} for more than 16 MiB of them.
  static const Names* intern(std::span<const std::string> names);
  /// Returns the object for this list if there is one, else null. Thread-safe.
  static const Names* known(std::span<const std::string> names);
  /// Returns true if these are the names, in this order.
  bool equals(std::span<const std::string> names) const noexcept;

  /// Returns the number of names.
  std::size_t size() const noexcept { return names_.size(); }
  /// Returns name i. REQUIRES: i < size().
  const std::string& operator[](std::size_t i) const noexcept { return names_[i]; }
  /// Returns the position of a name, or -1.
  int find(std::string_view name) const noexcept;

 private:
  explicit Names(std::vector<std::string> names) : names_(std::move(names)) {}
  std::vector<std::string> names_;
};

/// One sample, or one batch of samples, whose components all have the batch as their outermost
/// dimension. Up to four components need no allocation. Copies share the tensors' memory. Not
/// synchronised.
class Element {
 public:
  /// An element without components.
  Element() = default;
  /// An element with components of these names, each an empty tensor.
  explicit Element(const Names* names);
  /// An element of these components. Throws Error{invalid_argument} for an empty or repeated name.
  Element(std::initializer_list<std::pair<std::string, Tensor>> components);
  Element(const Element& other);
  Element(Element&& other) noexcept
      : valid_rows(other.valid_rows), names_(other.names_), size_(other.size_) {
    take_values(other);
  }
  Element& operator=(const Element& other);
  Element& operator=(Element&& other) noexcept;
  ~Element() { clear(); }

  /// Returns the number of components.
  std::size_t size() const noexcept { return size_; }
  /// Returns true if there are no components.
  bool empty() const noexcept { return size_ == 0; }
  /// Returns component i. REQUIRES: i < size().
  template <std::integral I>
  Tensor& operator[](I i) noexcept {
    return data()[static_cast<std::size_t>(i)];
  }
  template <std::integral I>
  const Tensor& operator[](I i) const noexcept {
    return data()[static_cast<std::size_t>(i)];
  }
  /// Returns the component of that name. Throws Error{not_found} that lists the names of the
  /// element.
  Tensor& operator[](std::string_view name) { return data()[require(name)]; }
  const Tensor& operator[](std::string_view name) const { return data()[require(name)]; }
  Tensor& operator[](const char* name) { return data()[require(name)]; }
  const Tensor& operator[](const char* name) const { return data()[require(name)]; }
  /// Returns true if there is a component of that name.
  bool has(std::string_view name) const noexcept {
    return names_ != nullptr && names_->find(name) >= 0;
  }
  /// Returns the names, or null for an element without components.
  const Names* names() const noexcept { return names_; }
  /// Returns the name of component i. REQUIRES: i < size().
  const std::string& name(std::size_t i) const noexcept { return (*names_)[i]; }

  /// Replaces the component of that name, or appends it.
  void set(std::string_view name, Tensor value);
  /// Starts an element that has none of the components of `names` yet. This is the cheapest way to
  /// make an element: `append` then makes the components in their order, each a
  /// Tensor(arguments...). Keeps memory. REQUIRES: one call of `append` for each name before any
  /// other use.
  void start(const Names* names);
  /// Makes the next component after `start`, and returns it.
  template <typename... Arguments>
  Tensor& append(Arguments&&... arguments) noexcept {
    static_assert(std::is_nothrow_constructible_v<Tensor, Arguments...>);
    Tensor* const place = data() + size_++;
    if (heap_) std::destroy_at(place);
    return *std::construct_at(place, std::forward<Arguments>(arguments)...);
  }
  /// Makes the components those of `names`, each an empty tensor. Keeps memory.
  void reset(const Names* names);
  /// Removes all components. Keeps memory.
  void clear() noexcept;

  /// The number of rows of a batch that hold samples; rows past it are padding. -1 if this is not a
  /// batch.
  std::int64_t valid_rows = -1;

 private:
  static constexpr std::size_t kInline = 4;

  Tensor* data() noexcept { return heap_ ? heap_.get() : reinterpret_cast<Tensor*>(inline_); }
  const Tensor* data() const noexcept {
    return heap_ ? heap_.get() : reinterpret_cast<const Tensor*>(inline_);
  }
  std::size_t require(std::string_view name) const;
  void grow(std::size_t count);
  void clear_heap() noexcept;
  void take_heap(Element& other) noexcept;
  void take_values(Element& other) noexcept;

  const Names* names_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = 0;      // of heap_
  std::unique_ptr<Tensor[]> heap_;  // once there were more than kInline components
  alignas(Tensor) std::byte inline_[kInline * sizeof(Tensor)];  // else the first size_ are alive
};

// Inline because an element is moved at every hand-over. Code that few elements need is in
// element.cpp.

inline void Element::clear() noexcept {
  names_ = nullptr;
  valid_rows = -1;
  if (size_ == 0) return;
  if (heap_) [[unlikely]] {
    clear_heap();
  } else {
    std::destroy_n(reinterpret_cast<Tensor*>(inline_), size_);
  }
  size_ = 0;
}

inline void Element::start(const Names* names) {
  clear();
  names_ = names;
  if (names->size() > kInline) grow(names->size());
}

/// Moves the values, after names and sizes were moved. REQUIRES: *this holds no values.
inline void Element::take_values(Element& other) noexcept {
  other.valid_rows = -1;
  other.names_ = nullptr;
  other.size_ = 0;
  if (other.heap_) [[unlikely]]
    return take_heap(other);
  // A tensor may be moved as its bytes if the place it was in forgets it, as `other` just did. The
  // builtin, because std::memcpy may be a call that checks bounds.
  std::byte* to = inline_;
  const std::byte* from = other.inline_;
  for (std::uint32_t left = size_; left > 0; --left) {
    __builtin_memcpy(to, from, sizeof(Tensor));
    to += sizeof(Tensor);
    from += sizeof(Tensor);
  }
}

inline Element& Element::operator=(Element&& other) noexcept {
  if (this != &other) {
    clear();
    if (heap_) [[unlikely]]
      heap_.reset();
    valid_rows = other.valid_rows;
    names_ = other.names_;
    size_ = other.size_;
    take_values(other);
  }
  return *this;
}

}  // namespace penstock
