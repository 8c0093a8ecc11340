#include "towers/trainer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <penstock/error.h>

#include "towers/checkpoint.h"
#include "towers/onednn.h"
#include "towers/step_log.h"

namespace penstock::towers {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::vector<DeviceId> ids_of(const std::vector<DevicePtr>& devices) {
  std::vector<DeviceId> ids;
  for (const DevicePtr& device : devices) ids.push_back(device->id());
  return ids;
}

/// Updates in all, as far as it can be known; 0: it can't.
std::uint64_t steps_of(const Dataset& train, const TrainOptions& options) {
  const std::int64_t elements = train.cardinality();
  const auto together = options.batch * static_cast<std::int64_t>(options.devices.size());
  std::uint64_t steps = options.max_steps;
  if (elements < 0) return steps;
  std::int64_t each = elements / together;
  const std::int64_t left = elements % together;
  const bool one_more = options.feed.end == EpochEnd::pad || options.feed.end == EpochEnd::wrap ||
                        (options.feed.end == EpochEnd::stop &&
                         left >= static_cast<std::int64_t>(options.devices.size()));
  if (left > 0 && one_more) ++each;
  const std::uint64_t all = static_cast<std::uint64_t>(each) * options.epochs;
  return steps == 0 ? all : std::min(steps, all);
}

/// A model that is spread over the devices is one tower, fed on the first of them.
TrainOptions one_tower_if_spread(TrainOptions options) {
  if (options.strategy.kind == StrategyKind::model_parallel) options.devices.resize(1);
  return options;
}

void check(const TrainOptions& options) {
  const auto refuse = [](const char* why) { throw Error(ErrorCode::invalid_argument, why); };
  if (options.devices.empty()) refuse("training needs a device for each tower");
  if (options.batch < 1) refuse("a batch must have at least one row");
  if (options.epochs < 1) refuse("training needs at least one epoch");
  // A tower that waits for a token would keep the others' batches back.
  if (options.strategy.kind == StrategyKind::sync_replicas &&
      options.feed.mode != FeedMode::per_tower)
    refuse("sync_replicas needs batches that any tower may take: feed per_tower");
  if (options.deterministic && (options.strategy.kind == StrategyKind::async ||
                                options.strategy.kind == StrategyKind::sync_replicas))
    refuse("towers that do not wait for each other are not deterministic");
  if (options.threads < 0) refuse("a tower can't compute on less than one thread");
}

}  // namespace

class Trainer::Impl {
 public:
  Impl(const ModelMaker& make, const Dataset& train, const std::optional<Dataset>& test,
       TrainOptions options)
      : parts_(options.devices),
        options_(one_tower_if_spread(std::move(options))),
        store_(ids_of(options_.devices), options_.seed) {
    const auto towers = static_cast<int>(options_.devices.size());
    if (options_.threads == 0)
      options_.threads =
          options_.deterministic
              ? 1
              : std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / towers);
    planned_ = steps_of(train, options_);
    Schedule& schedule = options_.strategy.update.schedule;
    if (planned_ == 0 && schedule.needs_total())
      throw Error(ErrorCode::invalid_argument,
                  "schedule " + schedule.describe() +
                      " needs the number of steps: too little data, or max_steps is missing");
    schedule = schedule.over(planned_);
    set_compute_threads(options_.threads);
    for (int tower = 0; tower < towers; ++tower) {
      models_.push_back(make(store_.tower(tower)));
      streams_.emplace_back(options_.devices[static_cast<std::size_t>(tower)],
                            "tower " + std::to_string(tower));
    }
    if (options_.strategy.kind == StrategyKind::model_parallel) models_.front()->spread(parts_);
    store_.pack();
    strategy_ = make_strategy(store_, options_.strategy);
    others_ = make_host_collective(towers, options_.strategy.timeout_s);
    if (!options_.checkpoint_folder.empty()) checkpoints_.emplace(options_.checkpoint_folder);
    std::optional<RunPosition> position;
    if (checkpoints_) position = checkpoints_->restore(store_, *strategy_, setting());
    if (position) {
      epoch_ = position->epoch;
    } else if (!options_.initial_variables.empty()) {
      import_variables(store_, options_.initial_variables);
      strategy_->restore(0);
    }
    resumed_at_ = strategy_->step();
    open_feeds(train, test, position ? position->feed : std::string());
  }

  TrainResult run(TrainObserver& observer) {
    StepLog log(strategy_->synchronous() ? store_.towers() : 1, observer,
                options_.strategy.update.schedule);
    TrainResult result;
    while (!stopped_ && !feed_->ended(0) && !reached(options_.max_steps)) {
      const bool ended = run_steps(log, next_stop());
      const bool last = stopped_ || feed_->ended(0) || reached(options_.max_steps);
      if (checkpoints_ && (last || is_due(options_.checkpoint_every, ended)))
        checkpoints_->save(store_, *strategy_,
                           {strategy_->step(), epoch_, feed_->save(), setting()});
      if (test_feed_ && !stopped_ && (last || is_due(options_.evaluate_every, ended)))
        report_evaluation(result, observer);
    }
    if (test_feed_ && !stopped_) report_evaluation(result, observer);
    result.resumed_at = resumed_at_;
    result.steps = strategy_->step();
    result.losses = log.losses();
    result.elements = log.elements();
    result.train_s = train_s_;
    result.feed = feed_->stats();
    result.strategy = strategy_->stats();
    result.digest = store_.digest();
    return result;
  }

  Evaluation evaluate() {
    if (!test_feed_)
      throw Error(ErrorCode::invalid_argument, "there is no dataset to evaluate with");
    std::vector<Loss> parts(models_.size());
    run_towers([&](int tower) {
      Loss& part = parts[static_cast<std::size_t>(tower)];
      while (std::optional<StagedBatch> batch = test_feed_->next(tower)) {
        take(*batch, tower);
        const Pass pass = pass_of(tower, *batch, false, 0);
        const Loss loss = model(tower).forward(Batch(*batch), pass);
        part.sum += loss.sum;
        part.correct += loss.correct;
        part.rows += loss.rows;
        batch->release(stream(tower));
      }
    });
    Loss total;
    for (const Loss& part : parts) {
      total.sum += part.sum;
      total.correct += part.correct;
      total.rows += part.rows;
    }
    const auto rows = static_cast<double>(std::max<std::int64_t>(1, total.rows));
    return {strategy_->step(), total.sum / rows, static_cast<double>(total.correct) / rows,
            total.rows};
  }

  void stop() noexcept { stopped_ = true; }
  std::uint64_t planned() const noexcept { return planned_; }
  VariableStore& store() noexcept { return store_; }
  Strategy& strategy() noexcept { return *strategy_; }

 private:
  void report_evaluation(TrainResult& result, TrainObserver& observer) {
    if (result.evaluation && result.evaluation->step == strategy_->step()) return;
    result.evaluation = evaluate();
    observer.on_evaluation(*result.evaluation);
  }

  bool is_due(std::uint64_t every, bool epoch_ended) const {
    return every > 0 ? strategy_->step() % every == 0 : epoch_ended;
  }

  /// What a run that goes on must have in common with the one before.
  std::map<std::string, std::string> setting() const {
    const StrategyOptions& strategy = options_.strategy;
    std::map<std::string, std::string> all{
        {"seed", std::to_string(options_.seed)},
        {"number of towers", std::to_string(store_.towers())},
        {"batch", std::to_string(options_.batch)},
        {"strategy", std::string(name_of(strategy.kind))},
        {"combination", strategy.combine == Combine::sum ? "sum" : "average"},
        {"optimizer", strategy.update.optimizer->describe()},
        {"schedule", strategy.update.schedule.describe()},
        {"clip norm", std::to_string(strategy.update.clip_norm)}};
    if (strategy.update.schedule.needs_total()) all["number of steps"] = std::to_string(planned_);
    if (options_.deterministic) {
      all["threads of a tower"] = std::to_string(options_.threads);
      all["instructions"] = compute_instructions();
    }
    return all;
  }

  void open_feeds(const Dataset& train, const std::optional<Dataset>& test,
                  const std::string& position) {
    const std::int64_t rows =
        options_.feed.mode == FeedMode::split
            ? options_.batch * static_cast<std::int64_t>(options_.devices.size())
            : options_.batch;
    FeedOptions feed = options_.feed;
    feed.run.seed = options_.seed;
    feed.run.epochs = options_.epochs;
    if (!strategy_->synchronous() && feed.mode == FeedMode::per_tower) feed.in_turn = false;
    const Dataset batches = train.batch(rows);
    feed_ = std::make_unique<Feed>(position.empty()
                                       ? Feed(batches, options_.devices, feed)
                                       : Feed::restore(position, batches, options_.devices, feed));
    if (!test) return;
    feed.mode = FeedMode::per_tower;
    feed.end = EpochEnd::pad;
    feed.in_turn = true;
    feed.run.epochs = UINT64_MAX;
    test_feed_ = std::make_unique<Feed>(test->batch(options_.batch), options_.devices, feed);
  }

  bool reached(std::uint64_t limit) const { return limit > 0 && strategy_->step() >= limit; }

  std::uint64_t next_stop() const {
    std::uint64_t stop = options_.max_steps > 0 ? options_.max_steps : UINT64_MAX;
    if (options_.evaluate_every > 0)
      stop = std::min(stop,
                      (strategy_->step() / options_.evaluate_every + 1) * options_.evaluate_every);
    if (checkpoints_ && options_.checkpoint_every > 0)
      stop = std::min(
          stop, (strategy_->step() / options_.checkpoint_every + 1) * options_.checkpoint_every);
    return stop;
  }

  /// Trains up to update `until` or the epoch's end; true for the latter.
  bool run_steps(StepLog& log, std::uint64_t until) {
    const std::uint64_t first = strategy_->step();
    log.begin(first, epoch_);
    started_ = Clock::time_point();
    std::atomic<bool> ended = false;
    run_towers([&](int tower) {
      if (train_tower(log, tower, first, until)) ended = true;
      strategy_->leave(tower);
    });
    if (started_ != Clock::time_point()) train_s_ += seconds_between(started_, Clock::now());
    strategy_->settle();
    share_statistics();
    if (ended) ++epoch_;
    return ended;
  }

  /// Those of tower 0 count: they are evaluated with, and saved.
  void share_statistics() {
    for (std::size_t v = 0; v < store_.of(0).size(); ++v)
      for (int tower = 1; tower < store_.towers(); ++tower)
        if (!store_.of(tower)[v]->trainable)
          std::ranges::copy(store_.of(0)[v]->value.values(), store_.of(tower)[v]->value.data());
  }

  bool train_tower(StepLog& log, int tower, std::uint64_t step, std::uint64_t until) {
    const bool together = strategy_->synchronous();
    for (;; ++step) {
      if ((together ? step : strategy_->step()) >= until || !agree_to_go_on(tower)) return false;
      std::optional<StagedBatch> batch = feed_->next(tower);
      if (!batch) return true;
      {
        const std::lock_guard lock(mutex_);
        if (started_ == Clock::time_point()) started_ = Clock::now();
      }
      take(*batch, tower);
      for (Variable* variable : store_.of(tower)) variable->has_gradient = false;
      const Pass pass = pass_of(tower, *batch, true, step);
      const Loss loss = model(tower).forward(Batch(*batch), pass);
      if (!std::isfinite(loss.mean()))
        throw Error(ErrorCode::out_of_range, "the loss is no number at step " +
                                                 std::to_string(step) +
                                                 "; a lower learning rate may help");
      model(tower).backward(pass);
      if (together) {
        log.add(step, loss);
      } else {
        log.add(loss);
      }
      strategy_->update(tower, loss.rows);
      batch->release(stream(tower));
    }
  }

  /// Where towers step together all see the same answer.
  bool agree_to_go_on(int tower) {
    if (!strategy_->synchronous() || store_.towers() == 1) return !stopped_;
    if (tower == 0) go_on_ = !stopped_;
    others_->barrier(tower);
    const bool answer = go_on_;
    others_->barrier(tower);
    return answer;
  }

  /// Host towers compute on the calling thread, which so is their stream.
  void take(StagedBatch& batch, int tower) {
    batch.wait(stream(tower));
    batch.synchronize();
  }

  Pass pass_of(int tower, const StagedBatch& batch, bool training, std::uint64_t step) const {
    const bool interleaved = training && options_.feed.mode == FeedMode::sharded;
    Pass pass;
    pass.training = training;
    pass.seed = options_.seed;
    pass.step = step;
    pass.tower = tower;
    pass.valid_rows = batch.valid_rows();
    pass.first = interleaved ? tower : tower * options_.batch;
    pass.stride = interleaved ? store_.towers() : 1;
    pass.others = training && strategy_->synchronous() ? others_.get() : nullptr;
    return pass;
  }

  /// Runs `body` for each tower on a thread of its own. Throws the first error once all have ended.
  void run_towers(const std::function<void(int)>& body) {
    std::optional<Error> first;
    const auto guarded = [&](int tower) {
      try {
        set_compute_threads(options_.threads);
        body(tower);
      } catch (...) {
        const Error error = status_from_current_exception().error();
        const std::lock_guard lock(mutex_);
        if (!first)
          first = Error(error.code(), "tower " + std::to_string(tower) + ": " + error.cause(),
                        error.where(), error.original());
        strategy_->fail(*first);
        others_->fail(*first);
        feed_->cancel();
        if (test_feed_) test_feed_->cancel();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (int tower = 0; tower < store_.towers(); ++tower) threads.emplace_back(guarded, tower);
    }
    if (first) throw Error(*first);
  }

  Model& model(int tower) { return *models_[static_cast<std::size_t>(tower)]; }
  StreamView stream(int tower) const { return streams_[static_cast<std::size_t>(tower)]; }

  const std::vector<DevicePtr> parts_;  // of a model that is spread
  TrainOptions options_;
  VariableStore store_;
  std::vector<ModelPtr> models_;  // each its tower's
  std::vector<Stream> streams_;
  StrategyPtr strategy_;
  std::unique_ptr<Collective> others_;
  std::optional<Checkpoints> checkpoints_;
  std::uint64_t planned_ = 0;
  std::uint64_t resumed_at_ = 0;
  std::uint64_t epoch_ = 0;
  double train_s_ = 0;
  std::unique_ptr<Feed> feed_;
  std::unique_ptr<Feed> test_feed_;
  std::atomic<bool> stopped_ = false;
  bool go_on_ = true;  // by tower 0, between barriers
  std::mutex mutex_;
  Clock::time_point started_;  // guarded by mutex_ while towers run
};

Trainer::Trainer(const ModelMaker& make, const Dataset& train, const std::optional<Dataset>& test,
                 TrainOptions options) {
  check(options);
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
  return impl_->planned();
}
VariableStore& Trainer::variables() noexcept {
  return impl_->store();
}
Strategy& Trainer::strategy() noexcept {
  return impl_->strategy();
}

}  // namespace penstock::towers
