// Who made a tower wait.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <penstock/feed.h>

#include "pipeline/core/thread_annotations.h"
#include "staging/area.h"

namespace penstock {

/// What the feeder did lately. Thread-safe; keeps the last few thousand spans.
class FeederTimeline {
 public:
  enum class Doing : std::uint8_t {
    upstream,  ///< waited for the input
    room,      ///< waited for a tower's slots
  };
  struct Share {
    std::int64_t upstream = 0;
    std::int64_t own_room = 0;
    std::int64_t others_room = 0;
  };

  void add(Doing doing, int tower, std::int64_t begin, std::int64_t end) EXCLUDES(mutex_);
  /// How much of [begin, end) was what, as seen by a tower.
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

/// Charges every nanosecond of a tower: it worked on a batch, or stalled for one cause, or neither.
/// A stall lasts from when the tower's stream had ended its last step, and the tower had asked for
/// the next batch, until the stream was past the wait for it. Going back from that moment, it
/// waited for the copy; for the slot to be copied to; and before that for what the feeder waited
/// for. Thread-safe.
class TowerLedger final : public BatchObserver {
 public:
  TowerLedger(const FeederTimeline& feeder, int tower, std::int64_t start)
      : feeder_(feeder), tower_(tower), start_(start), until_(start) {}

  void finished(const BatchTimes& times) noexcept override EXCLUDES(mutex_);
  /// Stall for the input that nobody has been named for yet is charged to `culprit`.
  void blame(const std::string& culprit) EXCLUDES(mutex_);
  TowerStats stats(const std::string& culprit) const EXCLUDES(mutex_);

 private:
  const FeederTimeline& feeder_;
  const int tower_;
  const std::int64_t start_;
  mutable Mutex mutex_;
  std::int64_t until_ GUARDED_BY(mutex_);  // everything up to here is charged
  std::uint64_t steps_ GUARDED_BY(mutex_) = 0;
  std::uint64_t elements_ GUARDED_BY(mutex_) = 0;
  std::int64_t step_ns_ GUARDED_BY(mutex_) = 0;
  std::int64_t other_ns_ GUARDED_BY(mutex_) = 0;
  std::int64_t copy_ns_ GUARDED_BY(mutex_) = 0;
  std::int64_t copy_waited_ns_ GUARDED_BY(mutex_) = 0;
  std::int64_t slots_ns_ GUARDED_BY(mutex_) = 0;
  std::int64_t other_tower_ns_ GUARDED_BY(mutex_) = 0;
  std::int64_t upstream_ns_ GUARDED_BY(mutex_) = 0;  // not blamed on anybody yet
  std::map<std::string, std::int64_t> upstream_of_ GUARDED_BY(mutex_);
};

}  // namespace penstock
