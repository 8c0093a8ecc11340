#include "towers/trainer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <penstock/error.h>

#include "towers/checkpoint.h"
#include "towers/evaluator.h"
#include "towers/step_log.h"
#include "towers/tower_set.h"
#include "towers/tower_steps.h"
#include "towers/train_plan.h"
#include "towers/update_tickets.h"

namespace penstock::towers {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

class Trainer::Impl {
 public:
  Impl(const ModelMaker& make, const Dataset& train, const std::optional<Dataset>& test,
       TrainOptions options)
      : parts_(options.strategy.kind == StrategyKind::model_parallel ? options.devices
                                                                     : std::vector<DevicePtr>()),
        options_(planned(train, std::move(options))),
        steps_(steps_of(train, options_)),
        towers_(make, options_, parts_),
        strategy_(make_strategy(store(), options_.strategy)) {
    if (!options_.checkpoint_folder.empty()) checkpoints_.emplace(options_.checkpoint_folder);
    std::optional<RunPosition> position;
    if (checkpoints_)
      position = checkpoints_->restore(store(), *strategy_, setting_of(options_, steps_));
    if (!position && !options_.initial_variables.empty()) {
      import_variables(store(), options_.initial_variables);
      strategy_->restore(0);
    }
    resumed_at_ = strategy_->step();
    open_feed(train, position ? position->feed : std::string());
    epoch_ = epochs_ended();
    batches_before_ = feed_->stats().batches;
    for (int t = 0; t < towers_.size(); ++t) begun_.push_back(feed_->taken(t));
    if (!test) return;
    if (options_.validation_device) {
      validation_.emplace(make, *test, options_);
    } else {
      evaluator_.emplace(towers_, *test, options_);
    }
  }

  TrainResult run(TrainObserver& observer) {
    StepLog log(strategy_->synchronous() ? towers_.size() : 1, observer,
                options_.strategy.update.schedule);
    TrainResult result;
    while (!stopped_ && !feed_ended() && !reached(options_.max_steps)) {
      const bool ended = run_steps(log, next_stop());
      const bool last = stopped_ || feed_ended() || reached(options_.max_steps);
      if (checkpoints_ && (last || is_due(options_.checkpoint_every, ended)))
        checkpoints_->save(
            store(), *strategy_,
            {strategy_->step(), epoch_, feed_->save(), setting_of(options_, steps_)});
      if (!stopped_ && (last || is_due(options_.evaluate_every, ended)))
        evaluate_now(result, observer);
    }
    if (!stopped_) evaluate_now(result, observer);
    take_validation(result, observer);
    result.resumed_at = resumed_at_;
    result.steps = strategy_->step();
    result.losses = log.losses();
    result.elements = log.elements();
    result.train_s = train_s_;
    result.strategy = strategy_->stats();
    result.digest = store().digest();
    result.feed = settled_stats();
    return result;
  }

  Evaluation evaluate() {
    if (evaluator_) return evaluator_->evaluate(strategy_->step());
    if (!validation_)
      throw Error(ErrorCode::invalid_argument, "there is no dataset to evaluate with");
    if (validation_->busy()) static_cast<void>(validation_->take());
    validation_->begin(store(), strategy_->step());
    return validation_->take();
  }

  void stop() noexcept { stopped_ = true; }
  std::uint64_t planned_steps() const noexcept { return steps_; }
  FeedStats feed_stats() const { return feed_->stats(); }
  VariableStore& store() noexcept { return towers_.store(); }
  Strategy& strategy() noexcept { return *strategy_; }

 private:
  /// Complete options, whose schedule knows how many updates there are.
  static TrainOptions planned(const Dataset& train, TrainOptions options) {
    options = completed(std::move(options));
    const std::uint64_t steps = steps_of(train, options);
    if (steps == 0 && train.cardinality() >= 0)
      throw Error(ErrorCode::invalid_argument,
                  std::to_string(train.cardinality()) + " records make no batch of " +
                      std::to_string(options.batch) +
                      (options.devices.size() > 1 ? " for each tower" : ""));
    Schedule& schedule = options.strategy.update.schedule;
    if (steps == 0 && schedule.needs_total())
      throw Error(ErrorCode::invalid_argument,
                  "schedule " + schedule.describe() +
                      " needs the number of steps, which these data do not tell without max_steps");
    schedule = schedule.over(steps);
    return options;
  }

  void open_feed(const Dataset& train, const std::string& position) {
    const std::int64_t rows =
        options_.feed.mode == FeedMode::split ? options_.batch * towers_.size() : options_.batch;
    FeedOptions feed = options_.feed;
    feed.run.seed = options_.seed;
    feed.run.epochs = options_.epochs;
    if (!strategy_->synchronous() && feed.mode == FeedMode::per_tower) feed.in_turn = false;
    const Dataset batches = train.batch(rows);
    feed_ = std::make_unique<Feed>(position.empty()
                                       ? Feed(batches, options_.devices, feed)
                                       : Feed::restore(position, batches, options_.devices, feed));
  }

  /// Evaluates in turn, or begins to on the validation tower, unless that was done for this step.
  void evaluate_now(TrainResult& result, TrainObserver& observer) {
    if (evaluated_ == strategy_->step()) return;
    if (evaluator_) {
      result.evaluation = evaluator_->evaluate(strategy_->step());
      observer.on_evaluation(*result.evaluation);
    } else if (validation_) {
      take_validation(result, observer);
      validation_->begin(store(), strategy_->step());
    }
    evaluated_ = strategy_->step();
  }

  void take_validation(TrainResult& result, TrainObserver& observer) {
    if (!validation_ || !validation_->busy()) return;
    result.evaluation = validation_->take();
    observer.on_evaluation(*result.evaluation);
  }

  bool is_due(std::uint64_t every, bool epoch_ended) const {
    return every > 0 ? strategy_->step() % every == 0 : epoch_ended;
  }

  // Towers that do not step together come to it one after the other, perhaps in several runs of
  // steps.
  std::uint64_t epochs_ended() const {
    std::uint64_t least = UINT64_MAX;
    for (int t = 0; t < towers_.size(); ++t) least = std::min(least, feed_->epochs(t));
    return least;
  }

  // A step is counted by its tower's reaper, which may be a little behind the tower.
  FeedStats settled_stats() const {
    FeedStats stats = feed_->stats();
    const auto counted = [&] {
      std::uint64_t steps = batches_before_;
      for (const TowerStats& tower : stats.towers) steps += tower.steps;
      return steps >= stats.batches;
    };
    for (int tries = 0; tries < 2000 && !counted(); ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      stats = feed_->stats();
    }
    return stats;
  }

  bool feed_ended() const {
    bool all = true;
    for (int t = 0; t < towers_.size(); ++t) all = all && feed_->ended(t);
    return all;
  }

  bool reached(std::uint64_t limit) const { return limit > 0 && strategy_->step() >= limit; }

  std::uint64_t next_stop() const {
    std::uint64_t stop = options_.max_steps > 0 ? options_.max_steps : UINT64_MAX;
    const auto stop_every = [&](std::uint64_t every) {
      if (every > 0) stop = std::min(stop, (strategy_->step() / every + 1) * every);
    };
    stop_every(options_.evaluate_every);
    if (checkpoints_) stop_every(options_.checkpoint_every);
    return stop;
  }

  /// Trains up to update `until` or the epoch's end on all towers; true for the latter.
  bool run_steps(StepLog& log, std::uint64_t until) {
    const std::uint64_t first = strategy_->step();
    log.begin(first, epoch_);
    started_ = Clock::time_point();
    std::optional<UpdateTickets> tickets;
    if (options_.strategy.kind == StrategyKind::async)
      tickets.emplace(*strategy_, until,
                      options_.feed.mode == FeedMode::per_tower ? nullptr : &begun_);
    const auto body = [&](int tower) {
      train_tower(log, tower, first, until, tickets ? &*tickets : nullptr);
      strategy_->leave(tower);
    };
    towers_.run(body, [&](const Status& error) {
      strategy_->fail(error);
      if (tickets) tickets->close();
      feed_->cancel();
    });
    if (started_ != Clock::time_point()) train_s_ += seconds_between(started_, Clock::now());
    strategy_->settle();
    // Tower 0's statistics count: they are evaluated with, and saved.
    for (std::size_t v = 0; v < store().of(0).size(); ++v)
      if (!store().of(0)[v]->trainable) store().share(v);
    const std::uint64_t before = std::exchange(epoch_, epochs_ended());
    return epoch_ > before;
  }

  void train_tower(StepLog& log, int tower, std::uint64_t step, std::uint64_t until,
                   UpdateTickets* tickets) {
    const bool together = strategy_->synchronous();
    const auto tell = [&](const LateLoss::Told& told) {
      if (!std::isfinite(told.loss.mean()))
        throw Error(ErrorCode::out_of_range, "the loss is no number at step " +
                                                 std::to_string(told.step) +
                                                 "; a lower learning rate may help");
      if (together) {
        log.add(told.step, told.loss);
      } else {
        log.add(told.loss);
      }
    };
    TowerSteps steps(towers_, tower, *strategy_, options_.feed.mode, tell);
    const auto may_begin = [&] {
      if (tickets == nullptr)
        return (together ? step : strategy_->step()) < until && agree_to_go_on(tower);
      if (stopped_) tickets->close();
      return tickets->take(tower);
    };
    for (; feed_->epochs(tower) == epoch_ && may_begin(); ++step) {
      std::optional<StagedBatch> batch = feed_->next(tower);
      if (!batch) {
        if (tickets != nullptr) tickets->give_back();
        break;
      }
      begin_clock();
      towers_.take(*batch, tower);
      steps.make(*batch, step);
      batch->release(towers_.stream(tower));
      if (tickets != nullptr) tickets->give_back();
    }
    steps.end();
  }

  void begin_clock() {
    const std::lock_guard lock(mutex_);
    if (started_ == Clock::time_point()) started_ = Clock::now();
  }

  /// Where towers step together all see the same answer.
  bool agree_to_go_on(int tower) {
    if (!strategy_->synchronous() || towers_.size() == 1) return !stopped_;
    if (tower == 0) go_on_ = !stopped_;
    towers_.others().barrier(tower);
    const bool answer = go_on_;
    towers_.others().barrier(tower);
    return answer;
  }

  const std::vector<DevicePtr> parts_;  // of a model that is spread
  const TrainOptions options_;
  const std::uint64_t steps_;
  TowerSet towers_;
  StrategyPtr strategy_;
  std::optional<Checkpoints> checkpoints_;
  std::uint64_t resumed_at_ = 0;
  std::uint64_t epoch_ = 0;                 // ends of epochs that all towers have got to
  std::uint64_t batches_before_ = 0;        // this run
  std::vector<std::uint64_t> begun_;        // batches and ends that towers have asked for
  std::optional<std::uint64_t> evaluated_;  // the step that was evaluated last
  double train_s_ = 0;
  std::unique_ptr<Feed> feed_;
  std::optional<Evaluator> evaluator_;
  std::optional<ValidationTower> validation_;
  std::atomic<bool> stopped_ = false;
  bool go_on_ = true;  // by tower 0, between barriers
  std::mutex mutex_;
  Clock::time_point started_;  // guarded by mutex_ while towers run
};

Trainer::Trainer(const ModelMaker& make, const Dataset& train, const std::optional<Dataset>& test,
                 TrainOptions options) {
  check_options(options);
  impl_ = std::make_unique<Impl>(make, train, test, std::move(options));
}

Trainer::~Trainer() = default;
TrainResult Trainer::run(TrainObserver& observer) {
  return impl_->run(observer);
}
void Trainer::stop() noexcept {
  impl_->stop();
}
Evaluation Trainer::evaluate() {
  return impl_->evaluate();
}
std::uint64_t Trainer::planned_steps() const noexcept {
  return impl_->planned_steps();
}
FeedStats Trainer::feed_stats() const {
  return impl_->feed_stats();
}
VariableStore& Trainer::variables() noexcept {
  return impl_->store();
}
Strategy& Trainer::strategy() noexcept {
  return impl_->strategy();
}

}  // namespace penstock::towers
