// The division of variables among servers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::towers {

/// Returns the server of each variable. The largest variables come first; each goes to the server
/// that has the fewest bytes so far, and to the first of equal ones. The result depends only on the
/// arguments, so all processes agree.
///
///     divide_by_bytes(std::vector<std::uint64_t>{4, 9, 5, 1}, 2)   // {1, 0, 1, 0}
///
/// REQUIRES: servers ≥ 1.
std::vector<int> divide_by_bytes(std::span<const std::uint64_t> bytes, int servers);

}  // namespace penstock::towers
