#include "towers/train/train_loop.h"

#include <penstock/error.h>

#include "towers/servers/served_loop.h"
#include "towers/strategies/kinds.h"
#include "towers/train/joint_start.h"
#include "towers/train/train_plan.h"
#include "towers/train/update_tickets.h"

namespace penstock::towers {
namespace {

/// All towers make each step together, in all processes.
class LoopInStep final : public TrainLoop {
 public:
  using TrainLoop::TrainLoop;

  // Other processes stop at the same step, so this one stops only when all have agreed to.
  bool stopping() const override {
    return peers() == nullptr ? parts_.stopped.load() : !continues_;
  }

  void begin(Feed& feed, std::uint64_t epoch, std::uint64_t until) override {
    feed_ = &feed;
    epoch_ = epoch;
    first_ = step();
    until_ = until;
  }

  void train(int tower, const MakeStep& make) override {
    std::uint64_t step = first_;
    for (; feed_->epochs(number(tower)) == epoch_ && step < until_ && agree(tower); ++step) {
      std::optional<StagedBatch> batch = feed_->next(number(tower));
      if (!batch) return;
      make(*batch, step);
    }
  }

 private:
  // All towers get the same answer.
  bool agree(int tower) {
    TowerSet& towers = parts_.towers;
    if (towers.all() == 1) return !parts_.stopped;
    if (tower == 0)
      continues_ = peers() == nullptr ? !parts_.stopped : !any_says(*peers(), parts_.stopped);
    towers.others().barrier(tower);
    const bool answer = continues_;
    towers.others().barrier(tower);
    return answer;
  }

  Feed* feed_ = nullptr;
  std::uint64_t epoch_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t until_ = 0;
  bool continues_ = true;  // written by tower 0, between barriers
};

/// Each tower makes steps of its own.
class LoopAsTheyCome final : public TrainLoop {
 public:
  using TrainLoop::TrainLoop;

  bool in_turn(bool asked) const override {
    const TrainOptions& options = parts_.options;
    return options.feed.mode == FeedMode::per_tower ? options.deterministic : asked;
  }

  void begin(Feed& feed, std::uint64_t epoch, std::uint64_t until) override {
    feed_ = &feed;
    epoch_ = epoch;
    first_ = step();
    until_ = until;
    tickets_.reset();
    if (parts_.options.strategy.kind != StrategyKind::async) return;
    if (begun_.empty())
      for (int t = 0; t < parts_.towers.size(); ++t) begun_.push_back(feed.taken(number(t)));
    const bool free = parts_.options.feed.mode == FeedMode::per_tower;
    tickets_.emplace(strategy(), until, free ? nullptr : &begun_);
  }

  void train(int tower, const MakeStep& make) override {
    std::uint64_t step = first_;
    for (; feed_->epochs(number(tower)) == epoch_ && may_begin(tower); ++step) {
      std::optional<StagedBatch> batch = feed_->next(number(tower));
      if (batch) make(*batch, step);
      if (tickets_) tickets_->give_back();
      if (!batch) return;
    }
  }

  void fail(const Status& error) noexcept override {
    TrainLoop::fail(error);
    if (tickets_) tickets_->close();
  }

 private:
  bool may_begin(int tower) {
    if (!tickets_) return strategy().step() < until_ && !parts_.stopped;
    if (parts_.stopped) tickets_->close();
    return tickets_->take(tower);
  }

  Feed* feed_ = nullptr;
  std::uint64_t epoch_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t until_ = 0;
  std::vector<std::uint64_t> begun_;  // batches and ends that towers have asked for
  std::optional<UpdateTickets> tickets_;
};

}  // namespace

std::string TrainLoop::start(const std::optional<std::string>& found, std::uint64_t,
                             std::uint64_t) {
  if (found && ServedPosition::is_one(*found))
    throw Error(ErrorCode::invalid_argument,
                "the checkpoint is of a run with parameter servers, which this one has not");
  return found.value_or("");
}

// Tower 0's values count: evaluations and checkpoints use them.
void TrainLoop::settle() {
  VariableStore& store = parts_.towers.store();
  for (std::size_t v = 0; v < store.of(0).size(); ++v) {
    if (store.of(0)[v]->trainable || towers_differ(parts_.options)) continue;
    if (peers() != nullptr) take_first_values(*peers(), store.of(0)[v]->value.values());
    store.share(v);
  }
}

std::unique_ptr<TrainLoop> make_train_loop(const TrainLoop::Parts& parts,
                                           const StrategyOptions& strategy) {
  VariableStore& store = parts.towers.store();
  if (is_served(strategy))
    return std::make_unique<ServedLoop>(parts, std::make_unique<ServedStrategy>(store, strategy));
  StrategyPtr made = make_strategy(store, strategy);
  if (made->synchronous()) return std::make_unique<LoopInStep>(parts, std::move(made));
  return std::make_unique<LoopAsTheyCome>(parts, std::move(made));
}

}  // namespace penstock::towers
