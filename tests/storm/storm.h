// Makes allocations fail, many in a row, as if memory had run out.
#pragma once

#include <array>
#include <cstddef>

namespace penstock::storm {

enum class Call { malloc, calloc, realloc, aligned, mmap, new_ };
inline constexpr std::array<const char*, 6> kCallNames = {"malloc",  "calloc", "realloc",
                                                          "aligned", "mmap",   "operator new"};

struct Tally {
  long calls = 0;                                ///< since `begin`
  std::array<long, kCallNames.size()> failed{};  ///< of each kind

  long all_failed() const noexcept {
    long sum = 0;
    for (const long of_kind : failed) sum += of_kind;
    return sum;
  }
};

/// From now on, the first `first` calls of the process succeed, the next `count` fail, and all
/// later ones succeed. The program that links this decides which calls count: see preload.cpp and
/// new_test.cpp.
void begin(long first, long count) noexcept;
Tally end() noexcept;

/// Counts a call. True if it must fail.
bool must_fail(Call call) noexcept;

}  // namespace penstock::storm
