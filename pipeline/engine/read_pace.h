// How long a stage's reads take, and how many of them are worth having on the way at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace penstock {

/// Learns from what reads took, and is kept from one epoch to the next. A group of elements is read
/// by one thread, one read after the other, where that takes no time to speak of; and by several,
/// each a part of it, where each read waits for a device. Thread-safe.
class ReadPace {
 public:
  /// `count` elements of `bytes` in all took `reads` reads, one after the other, and waited so long
  /// for a device.
  void learn(std::size_t count, std::uint64_t reads, std::uint64_t bytes,
             std::chrono::nanoseconds took) noexcept {
    if (count == 0 || reads == 0) return;
    const auto n = static_cast<double>(reads);
    note(latency_ns_, static_cast<double>(took.count()) / n);
    // One small read does not tell whether a larger one would have held more elements.
    if (reads > 1 || bytes >= kLargeRead) note(each_, n / static_cast<double>(count));
  }
  /// In how many parts `count` elements of `bytes` in all are read at once: at most one for each
  /// read.
  std::size_t parts(std::size_t count, std::uint64_t bytes) const noexcept {
    if (!slow()) return 1;
    const double each = each_.load(std::memory_order_relaxed);
    const double reads = each > 0 ? std::ceil(each * static_cast<double>(count))
                                  : static_cast<double>(bytes) / static_cast<double>(kLargeRead);
    return std::clamp<std::size_t>(static_cast<std::size_t>(reads), 1, count);
  }
  bool slow() const noexcept { return latency_ns_.load(std::memory_order_relaxed) >= kSlowNs; }
  double latency_ms() const noexcept { return 1e-6 * latency_ns_.load(std::memory_order_relaxed); }

  /// Groups that may be on their way beyond those that are ready.
  std::atomic<std::size_t> groups_ahead{2};

 private:
  static constexpr double kSlowNs = 1e6;
  static constexpr std::uint64_t kLargeRead = 128 << 10;

  // Threads that learn at once may lose a sample.
  static void note(std::atomic<double>& mean, double sample) noexcept {
    const double before = mean.load(std::memory_order_relaxed);
    mean.store(before == 0 ? sample : before + (sample - before) / 8, std::memory_order_relaxed);
  }

  std::atomic<double> latency_ns_{0};  // of a read
  std::atomic<double> each_{0};        // reads for an element; 0: not known yet
};

}  // namespace penstock
