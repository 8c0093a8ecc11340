// The rows of batches that receive the results of neighbouring items.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pipeline/engine/memory/slots.h"

namespace penstock {

/// Neighbouring rows of a batch, for neighbouring items.
struct Place {
  Slot* slot = nullptr;
  std::uint64_t batch = 0;
  std::uint32_t row = 0;    // row of the first item
  std::uint32_t first = 0;  // number of the first item in its group
  std::uint32_t count = 0;
};

/// The places of a group's items, from a given item on. A view. Empty if the items have no places
/// yet.
class Places {
 public:
  Places() = default;
  explicit Places(std::span<const Place> places) : places_(places) {}

  bool empty() const noexcept { return places_.empty(); }
  /// Returns the places from `count` items further on.
  Places behind(std::size_t count) const noexcept {
    Places rest = *this;
    if (empty()) return rest;
    rest.first_ += count;
    rest.drop_earlier();
    return rest;
  }
  /// Returns the place of at most `count` next items, as long as their rows are neighbours.
  Place next(std::size_t count) const noexcept {
    const Place& place = places_.front();
    const auto passed = static_cast<std::uint32_t>(first_ - place.first);
    const auto left =
        static_cast<std::uint32_t>(std::min<std::size_t>(place.count - passed, count));
    return {place.slot, place.batch, place.row + passed, place.first + passed, left};
  }
  /// Calls `use(place)` for each place of the next `count` items.
  template <typename F>
  void for_each(std::size_t count, F use) const {
    for (Places rest = *this; count > 0;) {
      const Place place = rest.next(count);
      use(place);
      count -= place.count;
      if (count > 0) rest = rest.behind(place.count);
    }
  }

 private:
  void drop_earlier() noexcept {
    while (places_.size() > 1 && first_ >= places_.front().first + places_.front().count) {
      places_ = places_.subspan(1);
    }
  }

  std::span<const Place> places_;
  std::size_t first_ = 0;
};

}  // namespace penstock
