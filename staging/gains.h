// What each tower would gain if one cause of its waits were gone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <penstock/feed.h>

#include <penstock/input_parts.h>
#include "pipeline/core/thread_annotations.h"
#include "staging/replay.h"

namespace penstock {

/// Gathers what the feeder and the towers' reapers know of each step, and when all of a step is
/// known goes through it once for each cause (see Replay). For feeds that serve their towers in
/// turn. Thread-safe; `roomed` to `close` are the feeder's.
class GainLedger {
 public:
  explicit GainLedger(const Replay::Bounds& bounds);

  // The feeder, for each step.
  void roomed(std::int64_t at) { next_.roomed = at; }
  void pulled(const PullTimes& pull) { next_.pulls.push_back(pull); }
  /// The tower is about to be given a batch.
  void give(int tower) { next_.given[static_cast<std::size_t>(tower)] = true; }
  /// Every tower that gets one has got it.
  void close() EXCLUDES(mutex_);
  /// What the input's parts leave from now on.
  void set_parts(const std::vector<InputPart>& parts) EXCLUDES(mutex_);

  /// A tower has used its next batch.
  void finished(int tower, const BatchTimes& times) noexcept EXCLUDES(mutex_);

  /// Of the input's work on a batch, on average.
  double seconds_per_batch() const EXCLUDES(mutex_);
  using Gains = std::vector<std::pair<std::string, double>>;
  /// Seconds of wall time that each cause costs the tower; those that cost none are left out.
  Gains of(int tower) const EXCLUDES(mutex_) { return of(tower, false); }
  /// That it would gain if there were half as much of each cause, see Replay::Without.
  Gains half_of(int tower) const EXCLUDES(mutex_) { return of(tower, true); }

 private:
  struct World {
    std::string cause;
    int for_tower = -1;  ///< -1: all
    Replay replay;
    Replay half;
  };
  struct Pending {
    StepTimes times;
    std::size_t missing = 0;
  };
  /// Steps that have not ended are few, as each takes a place in every area; but for empty ones.
  static constexpr std::size_t kMostPending = 4096;
  void replay() REQUIRES(mutex_);
  Gains of(int tower, bool half) const EXCLUDES(mutex_);
  void add_world(std::string cause, const Replay::Without& without, int for_tower = -1)
      REQUIRES(mutex_);

  const Replay::Bounds bounds_;
  StepTimes next_;  // the feeder's

  mutable Mutex mutex_;
  Ring<Pending> pending_ GUARDED_BY(mutex_);
  std::vector<Pending> spare_ GUARDED_BY(mutex_);           // keep their vectors' memory
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

/// Which cause to do something about: the one without which all towers together would have ended
/// soonest. `half`: the towers' gains with half as much of each.
FeedVerdict verdict_of(const std::vector<TowerStats>& towers,
                       const std::vector<GainLedger::Gains>& half);

}  // namespace penstock
