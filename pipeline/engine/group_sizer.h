// How many elements to hand over at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock {

/// What a stage's groups took, kept from one epoch to the next.
struct GroupSizes {
  std::atomic<std::size_t> by_time{1};
  std::atomic<std::size_t> by_bytes{SIZE_MAX};
};

/// As many as take a few milliseconds, so that hand-overs cost little and nobody waits long for a
/// group, or up to ten times that if their ops like so many, and no more than fit in a group's
/// share of the memory. Learns from what groups took. Thread-safe.
class GroupSizer {
 public:
  /// At most `most`. `sizes` outlives the sizer.
  GroupSizer(std::size_t most, std::uint64_t share, GroupSizes& sizes)
      : most_(most), share_(share), sizes_(sizes) {}
  std::size_t size() const noexcept {
    return std::min({most_, sizes_.by_time.load(std::memory_order_relaxed),
                     sizes_.by_bytes.load(std::memory_order_relaxed)});
  }
  std::size_t most() const noexcept { return most_; }
  /// `preferred`: the most that an op of theirs likes at once.
  void learn(std::size_t count, std::chrono::nanoseconds took, std::uint64_t bytes,
             std::size_t preferred) noexcept;

 private:
  static constexpr double kTargetNs = 5e6;
  static constexpr double kMostNs = 10 * kTargetNs;
  const std::size_t most_;
  const std::uint64_t share_;  // bytes
  GroupSizes& sizes_;
};

}  // namespace penstock
