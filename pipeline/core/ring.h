// A queue that keeps its memory.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace penstock {

/// A first-in, first-out queue in one vector. The vector grows by doubling and never shrinks, so a
/// steady state allocates nothing. Not synchronised.
template <typename T>
class Ring {
 public:
  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  /// REQUIRES: i < size().
  T& operator[](std::size_t i) noexcept { return items_[(first_ + i) & (items_.size() - 1)]; }
  const T& operator[](std::size_t i) const noexcept {
    return items_[(first_ + i) & (items_.size() - 1)];
  }
  T& front() noexcept { return (*this)[0]; }
  const T& front() const noexcept { return (*this)[0]; }
  T& back() noexcept { return (*this)[size_ - 1]; }

  void push_back(T item) {
    if (size_ == items_.size()) grow();
    ++size_;
    back() = std::move(item);
  }
  /// REQUIRES: !empty().
  T pop_front() {
    T item = std::move(front());
    front() = T();
    first_ = (first_ + 1) & (items_.size() - 1);
    --size_;
    return item;
  }

 private:
  void grow() {
    std::vector<T> larger(items_.empty() ? 16 : items_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    items_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> items_;  // the size is a power of two
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace penstock
