// A count of the reads that a thread has made.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

/// A sum of reads. Sources add to it. From it the engine learns how many rounds of reads a group of
/// records takes, and how full these rounds are.
struct ReadsAsked {
  std::uint64_t waits = 0;  ///< rounds of reads, which were waited for one after the other
  /// The sum of requests / depth, where depth is the number of requests that a file has under way
  /// at once (File::depth).
  double filled = 0;

  /// Adds `requests` that were given to a file at once.
  void add(std::size_t requests, std::size_t depth) noexcept {
    waits += (requests + depth - 1) / depth;
    filled += static_cast<double>(requests) / static_cast<double>(depth);
  }
};

/// Returns the count of this thread so far.
inline ReadsAsked& reads_asked() noexcept {
  thread_local ReadsAsked asked;
  return asked;
}

}  // namespace penstock
