// The causes for which a tower waited.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <penstock/feed.h>
#include <penstock/internal/thread_annotations.h>

#include "staging/area.h"

namespace penstock {

/// The recent activities of the feeder. Thread-safe; keeps the last few thousand spans.
class FeederTimeline {
 public:
  enum class Doing : std::uint8_t {
    upstream,  ///< waiting for the input
    room,      ///< waiting for a tower's slots
  };
  struct Share {
    std::int64_t upstream = 0;
    std::int64_t own_room = 0;
    std::int64_t others_room = 0;
  };

  void add(Doing doing, int tower, std::int64_t begin, std::int64_t end) EXCLUDES(mutex_);
  /// Returns how [begin, end) divides among the feeder's activities, as seen by a tower.
  Share during(int tower, std::int64_t begin, std::int64_t end) const EXCLUDES(mutex_);

 private:
  struct Span {
    Doing doing = Doing::upstream;
    int tower = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  static constexpr std::size_t kKept = 4096;
  mutable Mutex mutex_;
  std::array<Span, kKept> spans_ GUARDED_BY(mutex_);
  std::uint64_t added_ GUARDED_BY(mutex_) = 0;
};

/// Accounts for every nanosecond of a tower: it worked on a batch, stalled for one cause, or
/// neither. A stall begins when the tower's stream has ended its last step and the tower has asked
/// for the next batch. It ends when the stream has passed the wait for that batch. The stall is
/// divided backwards from its end. The tower waited for the copy, before that for a slot to copy
/// to, and before that for the same thing as the feeder. Thread-safe.
class TowerLedger final : public BatchObserver {
 public:
  TowerLedger(const FeederTimeline& feeder, int tower, std::int64_t start)
      : feeder_(feeder), tower_(tower), start_(start), until_(start) {}

  void finished(const BatchTimes& times) noexcept override EXCLUDES(mutex_);
  /// Charges the stall for the input that has no cause yet to `cause`.
  void blame(const std::string& cause) EXCLUDES(mutex_);
  TowerStats stats(const std::string& cause) const EXCLUDES(mutex_);

 private:
  const FeederTimeline& feeder_;
  const int tower_;
  const std::int64_t start_;
  mutable Mutex mutex_;
  std::int64_t until_ GUARDED_BY(mutex_);  // all time before this is accounted for
  std::uint64_t steps_ GUARDED_BY(mutex_) = 0;
  std::uint64_t elements_ GUARDED_BY(mutex_) = 0;
  std::int64_t step_ns_ GUARDED_BY(mutex_) = 0;
  std::int64_t other_ns_ GUARDED_BY(mutex_) = 0;
  std::int64_t copy_ns_ GUARDED_BY(mutex_) = 0;
  std::int64_t copy_waited_ns_ GUARDED_BY(mutex_) = 0;
  std::int64_t slots_ns_ GUARDED_BY(mutex_) = 0;
  std::int64_t other_tower_ns_ GUARDED_BY(mutex_) = 0;
  std::int64_t upstream_ns_ GUARDED_BY(mutex_) = 0;  // has no cause yet
  std::map<std::string, std::int64_t> upstream_of_ GUARDED_BY(mutex_);
};

}  // namespace penstock
