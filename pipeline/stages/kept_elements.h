// Elements that a cache keeps in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pipeline/stage/element_ref.h"
#include "pipeline/stages/arena.h"

namespace penstock {

/// Elements in memory that the budget is charged for. Small tensors are copied into the blocks of
/// an arena, and large ones keep their memory. One thread adds elements; from then on, any number
/// of threads may read them.
class KeptElements {
 public:
  /// Where a reader is. The default is the first element.
  struct Place {
    std::size_t block = 0;
    std::size_t offset = 0;
  };

  explicit KeptElements(ReadContext& memory) : arena_(memory) {}
  ~KeptElements();
  KeptElements(const KeptElements&) = delete;
  KeptElements& operator=(const KeptElements&) = delete;

  /// Appends the payload's element. Waits for room in the budget. Throws
  /// Error{resource_exhausted}; the element is not kept then.
  void add(std::uint64_t ordinal, const Payload& payload);
  /// Returns the number of elements.
  std::size_t size() const noexcept { return size_; }
  /// Returns the bytes that they take. The result depends on nothing but the elements.
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Returns the place of the element at `position`. REQUIRES: position <= size().
  Place find(std::size_t position) const noexcept;
  /// Returns the element there, with the ordinal that it was added with, and moves on to the next
  /// one. Small tensors view the blocks. REQUIRES: the place is not behind the last element.
  ElementRef next(Place& place) const;

 private:
  struct Kept;

  Kept& at(const Place& place) const noexcept;
  void pass(Place& place) const noexcept;

  Arena arena_;
  std::size_t size_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock
