#include "pipeline/engine/segment/group_sizer.h"

namespace penstock {

void GroupSizer::learn(std::size_t count, std::chrono::nanoseconds took, std::uint64_t bytes,
                       std::size_t preferred) noexcept {
  if (count == 0) return;
  const double each = std::max(1.0, static_cast<double>(took.count()) / static_cast<double>(count));
  const std::size_t now = size();
  const double target = std::clamp(each * static_cast<double>(preferred), kTargetNs, kMostNs);
  // At most doubled at a time, so that one lucky group cannot make the next one huge.
  const double wanted = std::min(target / each, 2.0 * static_cast<double>(std::max(now, count)));
  sizes_.by_time.store(std::clamp<std::size_t>(static_cast<std::size_t>(wanted + 0.5), 1, most_),
                       std::memory_order_relaxed);
  sizes_.bytes.store(bytes / count, std::memory_order_relaxed);
  sizes_.by_bytes.store(
      std::max<std::uint64_t>(share_ / std::max<std::uint64_t>(bytes / count, 1), 1),
      std::memory_order_relaxed);
}

void GroupSizer::follow(std::size_t count, std::size_t wanted, std::uint64_t bytes) noexcept {
  if (count == 0 || wanted == 0) return;
  const double took = kTargetNs / static_cast<double>(wanted) * static_cast<double>(count);
  learn(count, std::chrono::nanoseconds(static_cast<std::int64_t>(took)), bytes, 1);
}

}  // namespace penstock
