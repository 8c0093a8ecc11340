#include "towers/tower_steps.h"

#include <utility>

namespace penstock::towers {

TowerSteps::TowerSteps(TowerSet& towers, int tower, Strategy& strategy, FeedMode mode, Tell tell)
    : towers_(towers), tower_(tower), strategy_(strategy), mode_(mode), tell_(std::move(tell)) {
  if (towers.gpu(tower) != nullptr) late_.emplace(towers.store().gpus(tower));
}

void TowerSteps::make(const StagedBatch& batch, std::uint64_t step) {
  for (Variable* variable : towers_.store().of(tower_)) variable->begin_step();
  Pass pass = towers_.pass(tower_, batch, true, step, mode_);
  if (strategy_.synchronous()) pass.others = &towers_.others();
  if (late_) late_->begin();
  const Loss loss = towers_.model(tower_).forward(Batch(batch), pass);
  if (!late_) {
    tell_({step, loss});
  } else if (const auto told = late_->end(step, loss.rows)) {
    tell_(*told);
  }
  strategy_.begin(tower_, loss.rows);
  towers_.model(tower_).backward(pass);
  strategy_.update(tower_, loss.rows);
}

void TowerSteps::end() {
  if (!late_) return;
  if (const auto told = late_->last()) tell_(*told);
}

}  // namespace penstock::towers
