// Decides how many elements to hand over at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "pipeline/core/sizes.h"

namespace penstock {

/// The group sizes that a stage has learnt, kept from one epoch to the next.
struct GroupSizes {
  std::atomic<std::size_t> by_time{1};
  std::atomic<std::size_t> by_bytes{SIZE_MAX};
  std::atomic<std::uint64_t> bytes{0};  // of one element
};

/// Sizes groups so that each takes a few milliseconds. Then handing over costs little, and no
/// thread waits long for a group. Groups may take up to ten times as long if their ops prefer many
/// elements. They are never larger than their share of the memory allows. The sizer learns from the
/// time and memory of previous groups. Thread-safe.
class GroupSizer {
 public:
  /// Groups have at most `most` elements. `sizes` must outlive the sizer.
  GroupSizer(std::size_t most, std::uint64_t share, GroupSizes& sizes)
      : most_(most), share_(share), sizes_(sizes) {}
  std::size_t size() const noexcept {
    return std::min({most_, sizes_.by_time.load(std::memory_order_relaxed),
                     sizes_.by_bytes.load(std::memory_order_relaxed)});
  }
  /// Returns the bytes that so many elements take if they are like those of the last group.
  std::uint64_t bytes_of(std::size_t count) const noexcept {
    return saturating_product(count, sizes_.bytes.load(std::memory_order_relaxed));
  }
  /// Learns from a group. `preferred` is the most elements that one of its ops prefers to process
  /// at once.
  void learn(std::size_t count, std::chrono::nanoseconds took, std::uint64_t bytes,
             std::size_t preferred) noexcept;
  /// Learns from the findings of another process, which wants `wanted` elements at a time and
  /// needed `bytes` for `count` of them.
  void follow(std::size_t count, std::size_t wanted, std::uint64_t bytes) noexcept;

 private:
  static constexpr double kTargetNs = 5e6;
  static constexpr double kMostNs = 10 * kTargetNs;
  const std::size_t most_;
  const std::uint64_t share_;  // bytes
  GroupSizes& sizes_;
};

}  // namespace penstock
