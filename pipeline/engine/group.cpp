#include "pipeline/engine/group.h"

namespace penstock {

void GroupSizer::learn(std::size_t count, std::chrono::nanoseconds took,
                       std::uint64_t bytes) noexcept {
  if (count == 0) return;
  const double each = std::max(1.0, static_cast<double>(took.count()) / static_cast<double>(count));
  const std::size_t now = by_time_.load(std::memory_order_relaxed);
  // At most doubled at a time, so that one lucky group can't make a huge next one.
  const double wanted = std::min(kTargetNs / each, 2.0 * static_cast<double>(std::max(now, count)));
  by_time_.store(std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, most_),
                 std::memory_order_relaxed);
  by_bytes_.store(std::max<std::uint64_t>(share_ / std::max<std::uint64_t>(bytes / count, 1), 1),
                  std::memory_order_relaxed);
}

}  // namespace penstock
