// Training steps on one tower.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <penstock/towers/strategy.h>

#include "towers/gpu/late_loss.h"
#include "towers/train/tower_set.h"

namespace penstock::towers {

/// The steps of one tower. Used by the tower's thread.
///
///     towers.take(*batch, tower);
///     steps.make(*batch, step);
///     batch->release(towers.stream(tower));
class TowerSteps {
 public:
  using Tell = std::function<void(const LateLoss::Told&)>;

  /// `towers` and `strategy` must outlive it. `tell` receives the loss of each step before the
  /// step's backward pass. If the host does not wait for the device, it receives the loss one step
  /// late. An exception from `tell` ends the step.
  TowerSteps(TowerSet& towers, int tower, Strategy& strategy, FeedMode mode, Tell tell);
  /// Makes a step on a taken batch: forward pass, backward pass and update. Throws their errors.
  void make(const StagedBatch& batch, std::uint64_t step);
  /// Passes the last step's loss to `tell`, if that has not been done yet.
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
