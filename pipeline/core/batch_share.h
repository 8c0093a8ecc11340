// The part of an epoch's batches that a run makes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock {

/// The part of a graph's batches that one run makes. The positions of the elements must determine
/// the batches. All other batches come out in their places, but without components: the run skips
/// their elements and neither reads nor computes them. So positions are those of the whole run. An
/// element that fails ends such a run, since the runs that make the other batches do not learn of
/// the failure.
struct BatchShare {
  // The run makes the batches k with first <= k % of < first + count, and these rows of each:
  std::uint64_t first = 0, count = 1, of = 1;
  std::int64_t first_row = 0, rows = INT64_MAX;
  /// After the first epoch, batches in front of this one are made with all their rows.
  std::uint64_t whole_until = 0;
  /// Batches from this one on are also made with all their rows. They may lack rows.
  std::uint64_t whole_from = UINT64_MAX;

  struct Rows {
    std::uint32_t first = 0, end = 0;
  };
  /// Returns the rows to make of batch `k` of `epoch`. A full batch has `full` rows.
  Rows made_of(std::uint64_t epoch, std::uint64_t k, std::int64_t full) const noexcept {
    const auto all = static_cast<std::uint32_t>(full);
    if (k >= whole_from || (epoch > 0 && k < whole_until)) return {0, all};
    if (k % of < first || k % of >= first + count) return {};
    return {static_cast<std::uint32_t>(first_row),
            static_cast<std::uint32_t>(first_row + std::min(rows, full - first_row))};
  }
};

}  // namespace penstock
