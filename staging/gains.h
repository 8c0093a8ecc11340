// The time that each tower would gain if one cause of its waits were gone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/feed.h>

#include <penstock/internal/input_parts.h>
#include <penstock/internal/thread_annotations.h>
#include "staging/replay.h"

namespace penstock {

/// Collects the times that the feeder and the towers' reapers know of each step. Once all times of
/// a step are known, it replays the step once for each cause (see Replay). Only for feeds that
/// serve their towers in turn. Thread-safe; only the feeder calls `roomed` to `close`.
class GainLedger {
 public:
  explicit GainLedger(const Replay::Bounds& bounds);

  // The feeder calls these for each step.
  void roomed(std::int64_t at) { next_.roomed = at; }
  void pulled(const PullTimes& pull) { next_.pulls.push_back(pull); }
  /// The tower is about to be given a batch.
  void give(int tower) { next_.given[static_cast<std::size_t>(tower)] = true; }
  /// Ends the step: every tower that gets a batch has received it.
  void close() EXCLUDES(mutex_);
  /// Sets how much of the input's time would remain without each of its parts. Holds from now on.
  void set_parts(const std::vector<InputPart>& parts) EXCLUDES(mutex_);

  /// A tower has used its next batch.
  void finished(int tower, const BatchTimes& times) noexcept EXCLUDES(mutex_);

  /// Returns the seconds that the input works on a batch, on average.
  double seconds_per_batch() const EXCLUDES(mutex_);
  using Gains = std::vector<std::pair<std::string, double>>;
  /// Returns the seconds of wall time that each cause costs the tower. Causes that cost none are
  /// left out.
  Gains of(int tower) const EXCLUDES(mutex_) { return of(tower, false); }
  /// Returns the seconds that the tower would gain if there were half as much of each cause, see
  /// Replay::Without.
  Gains half_of(int tower) const EXCLUDES(mutex_) { return of(tower, true); }

 private:
  struct World {
    std::string cause;
    int for_tower = -1;  ///< the tower that this cause is replayed for; -1: all
    Replay replay;
    Replay half;
  };
  struct Pending {
    StepTimes times;
    std::size_t missing = 0;
  };
  /// The most steps kept. There are few unfinished steps, since each takes a place in every area;
  /// only empty steps take none.
  static constexpr std::size_t kMostPending = 4096;
  void replay() REQUIRES(mutex_);
  Gains of(int tower, bool half) const EXCLUDES(mutex_);
  void add_world(std::string cause, const Replay::Without& without, int for_tower = -1)
      REQUIRES(mutex_);

  const Replay::Bounds bounds_;
  StepTimes next_;  // used by the feeder only

  mutable Mutex mutex_;
  Ring<Pending> pending_ GUARDED_BY(mutex_);
  std::vector<Pending> spare_ GUARDED_BY(mutex_);           // kept for their vectors' memory
  std::vector<Ring<BatchTimes>> early_ GUARDED_BY(mutex_);  // of steps that are not closed yet
  std::vector<InputPart> parts_ GUARDED_BY(mutex_);         // of the input
  StepCosts costs_ GUARDED_BY(mutex_);
  std::int64_t making_ns_ GUARDED_BY(mutex_) = 0;
  std::uint64_t made_ GUARDED_BY(mutex_) = 0;
  Replay happened_ GUARDED_BY(mutex_);
  Replay base_ GUARDED_BY(mutex_);
  std::vector<World> worlds_ GUARDED_BY(mutex_);
  bool lost_ GUARDED_BY(mutex_) = false;  // memory ran out: nothing is known any more
};

/// Returns the cause to remove first: the one without which all towers together would have ended
/// soonest. `half`: the towers' gains with half as much of each cause.
FeedVerdict verdict_of(const std::vector<TowerStats>& towers,
                       const std::vector<GainLedger::Gains>& half);

}  // namespace penstock
