// What flows through the graph: an ordered set of named tensors.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/tensor.h>

namespace penstock {

/// An interned list of component names: equal lists are the same object, which lives for ever.
class Names {
 public:
  /// Thread-safe. The set of distinct lists in a process is small; they are never freed.
  static const Names* intern(std::span<const std::string> names);

  std::size_t size() const noexcept { return names_.size(); }
  const std::string& operator[](std::size_t i) const noexcept { return names_[i]; }
  /// Position of a name, or -1.
  int find(std::string_view name) const noexcept;

 private:
  explicit Names(std::vector<std::string> names) : names_(std::move(names)) {}
  std::vector<std::string> names_;
};

/// One sample, or one batch of them (every component then has the batch as its outermost
/// dimension). Up to four components need no allocation. Copying shares the tensors' memory.
class Element {
 public:
  Element() = default;
  /// Components with these names, each an empty tensor.
  explicit Element(const Names* names);
  Element(std::initializer_list<std::pair<std::string, Tensor>> components);
  Element(const Element& other);
  Element(Element&& other) noexcept;
  Element& operator=(const Element& other);
  Element& operator=(Element&& other) noexcept;
  ~Element() { clear(); }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  Tensor& operator[](std::size_t i) noexcept { return data()[i]; }
  const Tensor& operator[](std::size_t i) const noexcept { return data()[i]; }
  /// Throws Error{not_found} that lists the names there are.
  Tensor& operator[](std::string_view name) { return data()[require(name)]; }
  const Tensor& operator[](std::string_view name) const { return data()[require(name)]; }
  Tensor& operator[](const char* name) { return data()[require(name)]; }
  const Tensor& operator[](const char* name) const { return data()[require(name)]; }
  bool has(std::string_view name) const noexcept {
    return names_ != nullptr && names_->find(name) >= 0;
  }
  /// Null for an element without components.
  const Names* names() const noexcept { return names_; }
  const std::string& name(std::size_t i) const noexcept { return (*names_)[i]; }

  /// Replaces the component of that name, or appends it.
  void set(std::string_view name, Tensor value);
  /// Makes the components those of `names`, each an empty tensor; keeps memory.
  void reset(const Names* names);
  void clear() noexcept;

  /// Rows of a batch that hold samples; -1 if this is not a batch. Rows past it are padding.
  std::int64_t valid_rows = -1;

 private:
  static constexpr std::size_t kInline = 4;

  Tensor* data() noexcept { return heap_ ? heap_.get() : reinterpret_cast<Tensor*>(inline_); }
  const Tensor* data() const noexcept {
    return heap_ ? heap_.get() : reinterpret_cast<const Tensor*>(inline_);
  }
  std::size_t require(std::string_view name) const;

  const Names* names_ = nullptr;
  std::size_t size_ = 0;
  std::unique_ptr<Tensor[]> heap_;  // more than kInline components
  alignas(Tensor) std::byte inline_[kInline * sizeof(Tensor)];
};

}  // namespace penstock
