#include "towers/train/tower_steps.h"

#include <mutex>
#include <span>
#include <utility>

namespace penstock::towers {

namespace {

/// A collective that gives up the device's turn while a tower waits for others, so that other
/// towers of the same device can compute.
class YieldingCollective final : public Collective {
 public:
  YieldingCollective(Collective& others, std::unique_lock<std::mutex>& turn)
      : others_(others), turn_(turn) {}
  int size() const noexcept override { return others_.size(); }
  void barrier(int rank) override {
    yielding([&] { others_.barrier(rank); });
  }
  void sum(int rank, std::span<double> values) override {
    yielding([&] { others_.sum(rank, values); });
  }
  void fail(const Status& error) noexcept override { others_.fail(error); }

 private:
  template <typename Wait>
  void yielding(const Wait& wait) {
    turn_.unlock();
    wait();
    turn_.lock();
  }

  Collective& others_;
  std::unique_lock<std::mutex>& turn_;
};

}  // namespace

TowerSteps::TowerSteps(TowerSet& towers, int tower, Strategy& strategy, FeedMode mode, Tell tell)
    : towers_(towers), tower_(tower), strategy_(strategy), mode_(mode), tell_(std::move(tell)) {
  if (towers.gpu(tower) != nullptr) late_.emplace(towers.store().gpus(tower));
}

void TowerSteps::make(const StagedBatch& batch, std::uint64_t step) {
  std::unique_lock turn = towers_.turn(tower_);
  YieldingCollective others(towers_.others(), turn);
  for (Variable* variable : towers_.store().of(tower_)) variable->begin_step();
  Pass pass = towers_.pass(tower_, batch, true, step, mode_);
  if (strategy_.synchronous()) pass.others = &others;
  if (late_) late_->begin();
  const Loss loss = towers_.model(tower_).forward(towers_.to_train(batch, tower_), pass);
  if (!late_) {
    tell_({step, loss});
  } else if (const auto told = late_->end(step, loss.rows)) {
    tell_(*told);
  }
  strategy_.begin(tower_, loss.rows);
  towers_.model(tower_).backward(pass);
  turn.unlock();  // the exchange waits for all towers
  strategy_.update(tower_, loss.rows);
}

void TowerSteps::end() {
  if (!late_) return;
  if (const auto told = late_->last()) tell_(*told);
}

}  // namespace penstock::towers
