// The shard whose reads take longest.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <penstock/internal/thread_annotations.h>

namespace penstock {

/// A shard whose reads take several times as long as those of other shards.
struct SlowShard {
  std::string path;
  double read_s = 0;    ///< mean time of a read of it that is slow
  double others_s = 0;  ///< mean time of all other reads
};

/// Times of reads, by shard where these are slow. Knows the first 1,024 slow shards by name.
/// Thread-safe.
class ShardTimes {
 public:
  using Duration = std::chrono::steady_clock::duration;
  static constexpr std::chrono::milliseconds kSlow{1};

  /// Returns the times of this process.
  static ShardTimes& of_process() noexcept;

  /// Adds reads that took less than kSlow together. Allocates nothing.
  void add_fast(std::uint64_t reads, Duration took) noexcept;
  void add_slow(const std::string& shard, std::uint64_t reads, Duration took) EXCLUDES(mutex_);
  /// Returns the shard with the most time. That must be a quarter of all time, three times as much
  /// as any other shard has, and three times as much for a read as others take. Both sides need
  /// eight reads.
  std::optional<SlowShard> slowest() const EXCLUDES(mutex_);

 private:
  struct Time {
    std::uint64_t reads = 0;
    double seconds = 0;
  };

  std::atomic<std::uint64_t> fast_reads_{0};
  std::atomic<std::uint64_t> fast_ns_{0};
  mutable Mutex mutex_;
  std::map<std::string, Time> shards_ GUARDED_BY(mutex_);
  Time slow_ GUARDED_BY(mutex_);  // of all shards
};

}  // namespace penstock
