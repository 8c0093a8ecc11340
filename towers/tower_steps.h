// Steps of training on one tower.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "towers/gpu/late_loss.h"
#include "towers/strategies/strategy.h"
#include "towers/tower_set.h"

namespace penstock::towers {

/// Used by the tower's thread.
///
///     towers.take(*batch, tower);
///     steps.make(*batch, step);
///     batch->release(towers.stream(tower));
class TowerSteps {
 public:
  using Tell = std::function<void(const LateLoss::Told&)>;

  /// `towers` and `strategy` outlive it. `tell` hears each step's loss before the step's backward
  /// pass, or where the host does not wait for the device, a step late; what it throws ends the
  /// step.
  TowerSteps(TowerSet& towers, int tower, Strategy& strategy, FeedMode mode, Tell tell);
  /// Forward, backward and update, on a batch that was taken. Throws what they throw.
  void make(const StagedBatch& batch, std::uint64_t step);
  /// Tells the last step's loss, if it was not yet.
  void end();

 private:
  TowerSet& towers_;
  const int tower_;
  Strategy& strategy_;
  const FeedMode mode_;
  const Tell tell_;
  std::optional<LateLoss> late_;  // on GPUs
};

}  // namespace penstock::towers
