#include "pipeline/core/shard_times.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

namespace penstock {

ShardTimes& ShardTimes::of_process() noexcept {
  // Never destroyed, because reports are written after static destructors.
  alignas(ShardTimes) static std::byte room[sizeof(ShardTimes)];
  static ShardTimes& times = *new (room) ShardTimes;
  return times;
}

void ShardTimes::add_fast(std::uint64_t reads, Duration took) noexcept {
  fast_reads_.fetch_add(reads, std::memory_order_relaxed);
  const auto ns = std::chrono::nanoseconds(took).count();
  fast_ns_.fetch_add(static_cast<std::uint64_t>(ns), std::memory_order_relaxed);
}

void ShardTimes::add_slow(const std::string& shard, std::uint64_t reads, Duration took) {
  constexpr std::size_t kKnown = 1024;
  const double seconds = std::chrono::duration<double>(took).count();
  MutexLock lock(mutex_);
  slow_.reads += reads;
  slow_.seconds += seconds;
  auto known = shards_.find(shard);
  if (known == shards_.end() && shards_.size() < kKnown) known = shards_.try_emplace(shard).first;
  if (known == shards_.end()) return;
  known->second.reads += reads;
  known->second.seconds += seconds;
}

std::optional<SlowShard> ShardTimes::slowest() const {
  constexpr std::uint64_t kEnough = 8;
  constexpr double kSlower = 3;
  constexpr double kWorthNaming = 0.25;
  MutexLock lock(mutex_);
  const auto seconds = [](const auto& shard) { return shard.second.seconds; };
  const auto most = std::ranges::max_element(shards_, {}, seconds);
  if (most == shards_.end()) return std::nullopt;
  const Time& own = most->second;
  double next_s = 0;
  for (const auto& shard : shards_)
    if (&shard != &*most) next_s = std::max(next_s, shard.second.seconds);
  const double fast_s = 1e-9 * static_cast<double>(fast_ns_.load(std::memory_order_relaxed));
  const Time others{slow_.reads - own.reads + fast_reads_.load(std::memory_order_relaxed),
                    std::max(0.0, slow_.seconds - own.seconds) + fast_s};
  if (own.reads < kEnough || others.reads < kEnough) return std::nullopt;
  if (own.seconds < kWorthNaming * (own.seconds + others.seconds)) return std::nullopt;
  const SlowShard found{most->first, own.seconds / static_cast<double>(own.reads),
                        others.seconds / static_cast<double>(others.reads)};
  const bool stands_out =
      own.seconds >= kSlower * next_s && found.read_s >= kSlower * found.others_s;
  return stands_out ? std::optional(found) : std::nullopt;
}

}  // namespace penstock
