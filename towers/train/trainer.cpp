#include <penstock/towers/trainer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <penstock/error.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/towers/peers.h>

#include "towers/checkpoint/checkpoint.h"
#include "towers/checkpoint/resuming.h"
#include "towers/checkpoint/run_settings.h"
#include "towers/evaluate/evaluations.h"
#include "towers/train/feed_ends.h"
#include "towers/train/joint_start.h"
#include "towers/train/settled_stats.h"
#include "towers/train/step_log.h"
#include "towers/train/tower_set.h"
#include "towers/train/tower_steps.h"
#include "towers/train/train_loop.h"
#include "towers/train/train_plan.h"

namespace penstock::towers {

class Trainer::Impl {
  using Clock = std::chrono::steady_clock;

 public:
  Impl(const ModelMaker& make, const Dataset& train, const std::optional<Dataset>& test,
       TrainOptions options)
      : parts_(options.strategy.kind == StrategyKind::model_parallel ? options.devices
                                                                     : std::vector<DevicePtr>()),
        checkpoints_(checkpoint_folder(options)),
        found_(
            agree_on_checkpoint(checkpoints_ ? &*checkpoints_ : nullptr, options.strategy.peers)),
        classes_(classes_to_learn(train, found_ ? &*found_ : nullptr, options)),
        options_(planned(train, std::move(options), found_ ? kept_towers(*found_) : KeptTowers())),
        steps_(steps_of(train, options_)),
        towers_(make, options_, parts_),
        loop_(make_train_loop({towers_, options_, stopped_}, with_turns(options_.strategy))) {
    std::optional<RunPosition> position;
    if (found_) position = resume_from(*found_, store(), strategy(), options_, steps_);
    found_.reset();
    if (!position && !options_.initial_variables.empty()) {
      import_variables(store(), options_.initial_variables, options_.cast_initial_variables);
      strategy().restore(0);
    }
    const std::string input = loop_->start(position ? std::optional(position->feed) : std::nullopt,
                                           steps_, batches_of_tower(train, options_));
    resumed_at_ = strategy().step();
    if (peers() != nullptr) check_alike(*peers(), resumed_at_, store().digest());
    open_feed(labelled(train, classes_, options_.class_weights, kTrainingData), input,
              position ? position->file : "");
    epoch_ = ended_epochs();
    batches_before_ = feed_->stats().batches;
    if (!test) return;
    const Dataset eval = labelled(*test, classes_, options_.class_weights, kEvaluationData);
    evaluations_.emplace(make, towers_, eval, options_);
    if (position && options_.patience > 0) resume_early_stop(position->early_stop);
  }

  Evaluation evaluate() {
    if (!evaluations_)
      throw Error(ErrorCode::invalid_argument, "there is no dataset to evaluate with");
    return evaluations_->now(strategy().step());
  }

  void stop() noexcept { stopped_ = true; }
  std::uint64_t planned_steps() const noexcept { return steps_; }
  FeedStats feed_stats() const { return feed_->stats(); }
  VariableStore& store() noexcept { return towers_.store(); }
  Strategy& strategy() const noexcept { return loop_->strategy(); }
  const std::vector<std::string>& classes() const noexcept { return classes_; }

  TrainResult run(TrainObserver& observer) try {
    observer_ = &observer;
    StepLog log(strategy().synchronous() ? towers_.size() : 1, observer, options_.strategy.update,
                peers());
    TrainResult result;
    while (!over()) {
      const bool ended = run_steps(log, next_stop());
      make_stop(ended, result);
    }
    wait_for_others();
    if (!stopping()) evaluate_now(result);
    if (evaluations_) evaluations_->take(result, observer);
    loop_->end();
    result.early_stopped = early_stopped_;
    result.stopped = stopping() && !early_stopped_;
    result.resumed_at = resumed_at_;
    result.steps = strategy().step();
    log.report(result);
    result.train_s = train_s_;
    loop_->report(result);
    result.digest = store().digest();
    result.feed = settled_stats(*feed_, batches_before_, towers_.all());
    return result;
  } catch (const Error& error) {
    loop_->throw_first_loss(error);
    throw;
  }

 private:
  StrategyOptions with_turns(StrategyOptions strategy) {
    if (options_.towers_in_turn > 1)
      strategy.turn = [this](int tower) { return towers_.turn(tower); };
    return strategy;
  }

  void open_feed(const Dataset& train, const std::string& position, const std::string& file) {
    FeedOptions feed = options_.feed;
    // Few JPEGs have twice the bytes of the pixels that they become. The host decodes those.
    constexpr std::uint64_t kLeastRoom = 32 << 10;
    if (options_.on_device)
      feed.max_bytes =
          std::max(feed.max_bytes, static_cast<std::uint64_t>(options_.batch) *
                                       std::max(kLeastRoom, 2 * towers_.image_bytes()));
    feed.run.seed = options_.seed;
    feed.run.epochs = options_.epochs;
    feed.in_turn = loop_->in_turn(feed.in_turn);
    feed.run.exact_state = options_.deterministic;
    const Dataset batches = batches_to_train(train, options_);
    // The feed is for all processes' towers: its elements, ends and positions are those of one.
    if (peers() != nullptr || loop_->remote()) feed.towers_held = {towers_.first(), towers_.all()};
    feed_ = open_feed_at(position, file, batches, options_.devices, feed);
  }

  /// True if every batch was taken, or every update made.
  bool over() const {
    return stopping() || ended(*feed_, towers_.first(), towers_.size()) || loop_->finished();
  }

  /// The work between two runs of steps: evaluations and checkpoints.
  void make_stop(bool epoch_ended, TrainResult& result) {
    const bool last = over();
    // If other processes are still training, this is not the end.
    if (!is_first() || (last && loop_->remote())) return;
    const bool save = checkpoints_ && (last || is_save_due(epoch_ended));
    const bool look = !stopping() && evaluations_ &&
                      (last || is_due(options_.evaluate_every, evaluations_->last(), epoch_ended));
    if (options_.patience > 0) return make_patient_stop(look, save, result);
    if (save || (look && loop_->remote())) save_now(save);
    if (look) evaluate_now(result);
  }

  /// Fetches the variables, if they are elsewhere. Then saves a checkpoint if `save`.
  void save_now(bool save) {
    const std::string position = loop_->fetch(*feed_);
    if (!save || !checkpoints_) return;
    saved_ = strategy().step();
    RunPosition now{strategy().step(), epoch_, position, setting_of(options_, steps_), classes_};
    if (options_.patience > 0) {
      now.early_stop = evaluations_->early_stop().save();
      now.best_step = evaluations_->early_stop().best_step();
    }
    observer_->before_checkpoint(*saved_);
    checkpoints_->save(store(), strategy(), now, options_.strategy.update.stop_if_diverged);
  }

  /// Waits for other processes that train on the same variables elsewhere. The first process then
  /// has and saves variables with all updates.
  void wait_for_others() {
    const auto look = [this] {
      if (is_save_due(false)) save_now(true);
    };
    if (loop_->wait_for_others(look) && is_first()) save_now(true);
  }

  void evaluate_now(TrainResult& result) {
    if (evaluations_ && is_first()) evaluations_->make(strategy().step(), result, *observer_);
  }

  /// Takes all evaluations so far before it saves: the checkpoint stores the early stop's state.
  void make_patient_stop(bool look, bool save, TrainResult& result) {
    if (look) evaluate_now(result);
    evaluations_->take(result, *observer_);
    const EarlyStop& early = evaluations_->early_stop();
    const bool best = look && early.best_step() == strategy().step();
    if (early.due()) stopped_ = early_stopped_ = true;
    if (checkpoints_ && (save || best || over())) save_now(true);
  }

  void resume_early_stop(const std::string& kept) {
    if (!kept.empty()) evaluations_->early_stop().restore(kept);
    if (evaluations_->early_stop().due()) stopped_ = early_stopped_ = true;
  }

  bool is_save_due(bool epoch_ended) {
    return is_due(options_.checkpoint_every, saved_, epoch_ended) || loop_->wants_checkpoint();
  }

  /// `last` is the step at which it was done last.
  bool is_due(std::uint64_t every, const std::optional<std::uint64_t>& last,
              bool epoch_ended) const {
    return every == 0 ? epoch_ended : loop_->is_due(every, last.value_or(resumed_at_));
  }

  // Towers that do not step together may reach the end of an epoch in different runs of steps.
  std::uint64_t ended_epochs() const {
    return epochs_ended(*feed_, towers_.first(), towers_.size());
  }

  std::uint64_t next_stop() const {
    std::uint64_t stop = options_.max_steps > 0 ? options_.max_steps : UINT64_MAX;
    const auto stop_every = [&](std::uint64_t every) {
      if (every > 0) stop = std::min(stop, (loop_->step() / every + 1) * every);
    };
    stop_every(options_.evaluate_every);
    if (checkpoints_ || loop_->remote()) stop_every(options_.checkpoint_every);
    return stop;
  }

  /// Trains on all towers up to update `until` or the end of the epoch; true for the latter.
  bool run_steps(StepLog& log, std::uint64_t until) {
    log.begin(strategy().step(), epoch_);
    loop_->begin(*feed_, epoch_, until);
    reset_clock();
    const auto body = [&](int tower) {
      TowerSteps steps = steps_for(log, tower);
      loop_->train(tower, [&](StagedBatch& batch, std::uint64_t step) {
        begin_clock();
        towers_.take(batch, tower);
        steps.make(batch, step);
        batch.release(towers_.stream(tower));
      });
      steps.end();
      loop_->left(tower);
    };
    towers_.run(body, [&](const Status& error) {
      loop_->fail(error);
      feed_->cancel();
      if (peers() != nullptr) peers()->fail(error);
    });
    train_s_ += clock_s();
    strategy().settle();
    loop_->settle();
    const std::uint64_t before = std::exchange(epoch_, ended_epochs());
    return epoch_ > before;
  }

  TowerSteps steps_for(StepLog& log, int tower) {
    const bool together = strategy().synchronous();
    const auto tell = [&log, together](const LateLoss::Told& told) {
      log.add_checked(told.step, told.loss, together);
    };
    return TowerSteps(towers_, tower, strategy(), options_.feed.mode, tell);
  }

  // The clock of a run of steps begins with the first batch.
  void reset_clock() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    started_ = Clock::time_point();
  }
  void begin_clock() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (started_ == Clock::time_point()) started_ = Clock::now();
  }
  double clock_s() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (started_ == Clock::time_point()) return 0;
    return std::chrono::duration<double>(Clock::now() - started_).count();
  }

  Peers* peers() const noexcept { return options_.strategy.peers; }
  bool is_first() const noexcept { return towers_.first() == 0; }
  bool stopping() const { return loop_->stopping(); }

  const std::vector<DevicePtr> parts_;  // devices of a model that is spread
  std::optional<Checkpoints> checkpoints_;
  std::optional<StoredRun> found_;  // until it is restored
  const std::vector<std::string> classes_;
  const TrainOptions options_;
  const std::uint64_t steps_;
  TowerSet towers_;
  std::atomic<bool> stopped_ = false;
  const std::unique_ptr<TrainLoop> loop_;
  std::uint64_t resumed_at_ = 0;
  std::uint64_t epoch_ = 0;             // epochs that all towers have finished
  std::uint64_t batches_before_ = 0;    // before this run
  std::optional<std::uint64_t> saved_;  // the step that was saved last
  TrainObserver* observer_ = nullptr;   // of the run
  double train_s_ = 0;
  std::unique_ptr<Feed> feed_;
  std::optional<Evaluations> evaluations_;
  bool early_stopped_ = false;
  Mutex mutex_;
  Clock::time_point started_ GUARDED_BY(mutex_);
};

Trainer::Trainer(const ModelMaker& make, const Dataset& train, const std::optional<Dataset>& test,
                 TrainOptions options) {
  check_options(options);
  if (options.patience > 0 && !test)
    throw Error(ErrorCode::invalid_argument, "patience needs a dataset to evaluate with");
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
const std::vector<std::string>& Trainer::classes() const noexcept {
  return impl_->classes();
}
Strategy& Trainer::strategy() noexcept {
  return impl_->strategy();
}

}  // namespace penstock::towers
