// The rule for sums over towers.
#pragma once

#include <cstddef>
#include <span>

namespace penstock::towers {

/// Adds up values [begin, end) of all parts, in the order of towers, into the first part, and
/// overwrites the others. Neighbours are added first, then their sums, and so on: ((0 + 1) + (2 +
/// 3)) + 4. The tree depends only on the number of parts. So an aligned half, quarter, … of the
/// parts can be added up first elsewhere, and the bits are the same. REQUIRES: a part.
template <typename T>
void sum_by_tree(std::span<T* const> parts, std::size_t begin, std::size_t end) {
  for (std::size_t reach = 1; reach < parts.size(); reach *= 2) {
    for (std::size_t p = 0; p + reach < parts.size(); p += 2 * reach) {
      T* const to = parts[p];
      const T* const from = parts[p + reach];
      for (std::size_t i = begin; i < end; ++i) to[i] += from[i];
    }
  }
}

}  // namespace penstock::towers
