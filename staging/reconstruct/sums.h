// Running sums by a team: the work is divided into groups of neighbours, and the groups' sums are
// added up in the memory that the team shares.
#pragma once

#include <cstdint>

#include "pipeline/core/both.h"

namespace penstock::reconstruct {

inline constexpr int kGroups = 256;
/// The most sums that are made at once.
inline constexpr int kSums = 4;

/// A group first writes its sum of each kind to `of[kind][group + 1]`. After `add_up_groups`,
/// `of[kind][group]` is the sum of the groups before it, and `of[kind][kGroups]` that of all.
struct GroupSums {
  std::uint32_t of[kSums][kGroups + 1];
};

/// Things [begin, end) of a group.
struct GroupRange {
  std::uint32_t begin;
  std::uint32_t end;
};
PENSTOCK_BOTH inline GroupRange range_of(int group, std::uint32_t count) {
  const std::uint32_t each = both::divide_up<std::uint32_t>(count, kGroups);
  const std::uint32_t begin = both::least(static_cast<std::uint32_t>(group) * each, count);
  return {begin, both::least(begin + each, count)};
}

template <typename Team>
PENSTOCK_BOTH void add_up_groups(const Team& team, GroupSums& sums) {
  constexpr int kRow = 16;  // so three short steps do it, instead of one long one
  constexpr int kRows = kGroups / kRow;
  team.each(kSums * kRows, [&](int i) {
    std::uint32_t* const row = sums.of[i / kRows] + i % kRows * kRow;
    if (i % kRows == 0) row[0] = 0;
    for (int k = 2; k <= kRow; ++k) row[k] += row[k - 1];
  });
  team.each(kSums, [&](int kind) {
    std::uint32_t* const row = sums.of[kind];
    for (int k = 2; k <= kRows; ++k) row[k * kRow] += row[(k - 1) * kRow];
  });
  team.each(kSums * kGroups, [&](int i) {
    std::uint32_t* const row = sums.of[i / kGroups];
    const int k = i % kGroups;
    if (k % kRow != 0) row[k] += k < kRow ? 0 : row[k / kRow * kRow];
  });
}

}  // namespace penstock::reconstruct
