// Measures how long a stage's reads take, and decides how many should be under way at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "pipeline/io/read_count.h"

namespace penstock {

/// Learns from the times of reads, and is kept from one epoch to the next. One thread reads a group
/// of elements if its reads are fast, or all in progress at the same time. Several threads read a
/// part each if each read waits for a device after the previous one. Thread-safe.
class ReadPace {
 public:
  /// Learns from `count` elements of `bytes` in all. `asked` describes their requests, which waited
  /// `took` for a device.
  void learn(std::size_t count, const ReadsAsked& asked, std::uint64_t bytes,
             std::chrono::nanoseconds took) noexcept {
    if (count == 0 || asked.waits == 0) return;
    note(latency_ns_, static_cast<double>(took.count()) / static_cast<double>(asked.waits));
    // A single small read does not show whether a larger one would have held more elements.
    const bool tells = asked.waits > 1 || asked.filled < 1 || bytes >= kLargeRead;
    if (tells) note(each_, asked.filled / static_cast<double>(count));
  }
  /// Returns in how many parts to read `count` elements of `bytes` in all at once. There is at most
  /// one part for each read that waits for the one before it.
  std::size_t parts(std::size_t count, std::uint64_t bytes) const noexcept {
    if (!slow()) return 1;
    const double each = each_.load(std::memory_order_relaxed);
    const double reads = each > 0 ? std::ceil(each * static_cast<double>(count))
                                  : static_cast<double>(bytes) / static_cast<double>(kLargeRead);
    return std::clamp<std::size_t>(static_cast<std::size_t>(reads), 1, count);
  }
  bool slow() const noexcept { return latency_ns_.load(std::memory_order_relaxed) >= kSlowNs; }
  double latency_ms() const noexcept { return 1e-6 * latency_ns_.load(std::memory_order_relaxed); }

  /// The number of groups that may be under way in addition to those that are ready.
  std::atomic<std::size_t> groups_ahead{2};

 private:
  static constexpr double kSlowNs = 1e6;
  static constexpr std::uint64_t kLargeRead = 128 << 10;

  // Threads that learn at the same time may lose a sample.
  static void note(std::atomic<double>& mean, double sample) noexcept {
    const double before = mean.load(std::memory_order_relaxed);
    mean.store(before == 0 ? sample : before + (sample - before) / 8, std::memory_order_relaxed);
  }

  std::atomic<double> latency_ns_{0};  // of a read
  // Reads for an element, as shares of the depth; 0: unknown.
  std::atomic<double> each_{0};
};

}  // namespace penstock
